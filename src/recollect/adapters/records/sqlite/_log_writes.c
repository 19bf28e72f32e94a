/* SQLite's log in few large writes; log_writes.py says what for.
 *
 *   begin(room, notes)
 *           uint8[n], uint32[3 * m]: what this thread appends to a log is gathered in `room` from now on
 *   end() -> (left, first, frames, salts)
 *           No more. How many bytes were gathered and never written: some only where a commit failed. Of how many frames
 *           `notes` holds the number of the page and the checksum that the checksum VFS gives it, in two halves; where in
 *           the log the first of them begins, and of which generation of the log they are. None if that is not all that
 *           was written.
 *
 * A thin layer between SQLite and the system, for logs alone: all other files are opened by the layer below as if this
 * one were not there. What is gathered is handed on whole when the last frame of a commit has come, and before anything
 * else is done with the file; so whoever is told that a commit was written, or syncs or reads the log, finds it there.
 * It is never handed on later than that: what a commit that failed left behind is dropped, since another process may
 * have written in its place.
 *
 * SQLite's headers are not at hand where this is built: the few parts of its interface that are needed stand here, in
 * the order and with the numbers that SQLite promises to keep.
 */
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Counts up when a signature changes: log_writes.py does not use a module left over from an older build. */
#define INTERFACE 1

#ifdef _MSC_VER
#define THREAD __declspec(thread)
#else
#define THREAD __thread
#endif
#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

enum { OK = 0, OK_FOR_GOOD = 256, ERROR = 1 };
enum { OPEN_LOG = 0x00080000 };
enum { VFS_FIND = 141, VFS_REGISTER = 142 }; /* places in the table that an extension is given */
enum { FRAME_HEADER = 24 };                  /* page number, size of the file after a commit or 0, salts, checksums */
enum { PAGE_AT = 0, SALTS_AT = 8, SALTS = 8, SUM = 8 };
enum { PIECE = 0x10000 };                    /* SQLite's layer for Unix writes no more than 0x1ffff bytes at once */

typedef struct File File;
typedef struct Layer Layer;

typedef struct {
    int version;
    int (*close)(File *);
    int (*read)(File *, void *, int, int64_t);
    int (*write)(File *, const void *, int, int64_t);
    int (*truncate)(File *, int64_t);
    int (*sync)(File *, int);
    int (*size)(File *, int64_t *);
    int (*lock)(File *, int);
    int (*unlock)(File *, int);
    int (*is_reserved)(File *, int *);
    int (*control)(File *, int, void *);
    int (*sector)(File *);
    int (*device)(File *);
} Methods;

struct File {
    const Methods *methods;
};

struct Layer {
    int version;
    int file_bytes;
    int longest_path;
    Layer *next;
    const char *name;
    void *below;
    int (*open)(Layer *, const char *, File *, int, int *);
    int (*remove)(Layer *, const char *, int);
    int (*access)(Layer *, const char *, int, int *);
    int (*full_path)(Layer *, const char *, int, char *);
    void *(*library)(Layer *, const char *);
    void (*library_error)(Layer *, int, char *);
    void (*(*library_symbol)(Layer *, void *, const char *))(void);
    void (*library_close)(Layer *, void *);
    int (*random)(Layer *, int, char *);
    int (*sleep)(Layer *, int);
    int (*time)(Layer *, double *);
    int (*last_error)(Layer *, int, char *);
    int (*time_ms)(Layer *, int64_t *);
    int (*set_call)(Layer *, const char *, void (*)(void));
    void (*(*get_call)(Layer *, const char *))(void);
    const char *(*next_call)(Layer *, const char *);
};

/* -- what a thread gathers ---------------------------------------------------------------------------------------- */

typedef struct {
    Py_buffer room;
    File *file;       /* whose, while there are bytes */
    int64_t start;    /* where the bytes belong */
    int64_t furthest; /* the end of what was appended so far */
    Py_ssize_t count;
    int is_on;
    int is_last; /* what comes next is the page of the frame that ends a commit */
    int is_over; /* the commit was handed on: what follows it (to fill a sector, on some disks) is not gathered */
    Py_buffer notes;
    int64_t first;
    Py_ssize_t frames;
    int is_other; /* something was written that the notes do not tell of */
    int is_page;  /* what comes next is the page of this header */
    unsigned char header[FRAME_HEADER];
    char salts[SALTS];
} Gathered;

static THREAD Gathered mine;

static File *below(File *file) {
    return file + 1;
}

static int hand_on(Gathered *some) {
    Py_ssize_t count = some->count;
    File *file = below(some->file);
    some->count = 0;
    for (Py_ssize_t done = 0; done < count; done += PIECE) {
        int piece = (int)(count - done < PIECE ? count - done : PIECE);
        int failed = file->methods->write(file, (char *)some->room.buf + done, piece, some->start + done);
        if (failed) return failed;
    }
    return OK;
}

/* Before anything else is done with a file. */
static int settle(File *file) {
    return mine.count && mine.file == file ? hand_on(&mine) : OK;
}

static uint32_t word(const unsigned char *bytes) {
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static void note_page(Gathered *some, const unsigned char *page, int count) {
    uint32_t *note = (uint32_t *)some->notes.buf + 3 * some->frames++;
    uint32_t first = 0, second = 0;
    for (int at = 0; at < count - SUM; at += 8) {
        first += word(page + at) + second;
        second += word(page + at + 4) + first;
    }
    const unsigned char *number = some->header + PAGE_AT;
    note[0] = number[3] | (uint32_t)number[2] << 8 | (uint32_t)number[1] << 16 | (uint32_t)number[0] << 24;
    note[1] = first;
    note[2] = second;
}

/* The header of the log, then frames: their headers and their pages in turn. */
static void note(Gathered *some, const unsigned char *bytes, int count, int64_t at) {
    int is_page = some->is_page;
    some->is_page = 0;
    if (is_page && count > FRAME_HEADER && count % 8 == 0 && 12 * (some->frames + 1) <= some->notes.len)
        note_page(some, bytes, count);
    else if (!is_page && count == FRAME_HEADER) {
        some->is_page = 1;
        memcpy(some->header, bytes, FRAME_HEADER);
        if (!some->frames) {
            some->first = at;
            memcpy(some->salts, bytes + SALTS_AT, SALTS);
        }
    } else if (at)
        some->is_other = 1;
}

static int write_log(File *file, const void *bytes, int count, int64_t at) {
    Gathered *some = &mine;
    if (!some->is_on || some->is_over) return below(file)->methods->write(below(file), bytes, count, at);
    int follows = some->file == file && at == some->furthest;
    int ends = follows && some->is_last;
    some->is_last = 0;
    if (some->count && (!follows || count > some->room.len - some->count)) {
        int failed = hand_on(some);
        if (failed) return failed;
    }
    int is_anew = some->file == file && at < some->furthest; /* a frame of this commit is written once more */
    if (is_anew || count > some->room.len) {
        some->is_other = 1;
        return below(file)->methods->write(below(file), bytes, count, at);
    }
    if (some->frames && !follows) some->is_other = 1;
    note(some, bytes, count, at);
    if (!some->count) some->start = at;
    memcpy((char *)some->room.buf + some->count, bytes, (size_t)count);
    some->count += count;
    some->file = file;
    some->furthest = at + count;
    if (ends) {
        some->is_over = 1;
        return hand_on(some);
    }
    const unsigned char *header = bytes;
    some->is_last = count == FRAME_HEADER && (header[4] | header[5] | header[6] | header[7]);
    return OK;
}

/* -- a log ---------------------------------------------------------------------------------------------------------- */

static int close_log(File *file) {
    if (mine.file == file) mine.count = 0; /* no commit that was told of is there any more */
    return below(file)->methods->close(below(file));
}

static int read_log(File *file, void *into, int count, int64_t at) {
    int failed = settle(file);
    return failed ? failed : below(file)->methods->read(below(file), into, count, at);
}

static int truncate_log(File *file, int64_t size) {
    int failed = settle(file);
    return failed ? failed : below(file)->methods->truncate(below(file), size);
}

static int sync_log(File *file, int how) {
    int failed = settle(file);
    return failed ? failed : below(file)->methods->sync(below(file), how);
}

static int size_log(File *file, int64_t *size) {
    int failed = settle(file);
    return failed ? failed : below(file)->methods->size(below(file), size);
}

static int lock_log(File *file, int how) {
    return below(file)->methods->lock(below(file), how);
}

static int unlock_log(File *file, int how) {
    return below(file)->methods->unlock(below(file), how);
}

static int is_reserved_log(File *file, int *found) {
    return below(file)->methods->is_reserved(below(file), found);
}

static int control_log(File *file, int what, void *with) {
    int failed = settle(file);
    return failed ? failed : below(file)->methods->control(below(file), what, with);
}

static int sector_log(File *file) {
    return below(file)->methods->sector(below(file));
}

static int device_log(File *file) {
    return below(file)->methods->device(below(file));
}

static const Methods log_methods = {1,         close_log,       read_log,    write_log,  truncate_log, sync_log, size_log,
                                    lock_log,  unlock_log,      is_reserved_log, control_log, sector_log,  device_log};

/* -- the layer ------------------------------------------------------------------------------------------------------ */

static Layer *lower(Layer *layer) {
    return layer->below;
}

static int open_file(Layer *layer, const char *name, File *file, int flags, int *opened) {
    if (!(flags & OPEN_LOG)) return lower(layer)->open(lower(layer), name, file, flags, opened);
    file->methods = NULL;
    below(file)->methods = NULL;
    int failed = lower(layer)->open(lower(layer), name, below(file), flags, opened);
    if (below(file)->methods) file->methods = &log_methods; /* also one that could not be opened may be closed */
    return failed;
}

static int remove_file(Layer *layer, const char *name, int synced) {
    return lower(layer)->remove(lower(layer), name, synced);
}

static int access_file(Layer *layer, const char *name, int flags, int *found) {
    return lower(layer)->access(lower(layer), name, flags, found);
}

static int full_path(Layer *layer, const char *name, int room, char *path) {
    return lower(layer)->full_path(lower(layer), name, room, path);
}

static void *library(Layer *layer, const char *path) {
    return lower(layer)->library(lower(layer), path);
}

static void library_error(Layer *layer, int room, char *words) {
    lower(layer)->library_error(lower(layer), room, words);
}

static void (*library_symbol(Layer *layer, void *handle, const char *name))(void) {
    return lower(layer)->library_symbol(lower(layer), handle, name);
}

static void library_close(Layer *layer, void *handle) {
    lower(layer)->library_close(lower(layer), handle);
}

static int random_bytes(Layer *layer, int count, char *bytes) {
    return lower(layer)->random(lower(layer), count, bytes);
}

static int sleep_for(Layer *layer, int microseconds) {
    return lower(layer)->sleep(lower(layer), microseconds);
}

static int time_now(Layer *layer, double *days) {
    return lower(layer)->time(lower(layer), days);
}

static int last_error(Layer *layer, int room, char *words) {
    return lower(layer)->last_error(lower(layer), room, words);
}

static int time_ms(Layer *layer, int64_t *milliseconds) {
    return lower(layer)->time_ms(lower(layer), milliseconds);
}

static int set_call(Layer *layer, const char *name, void (*call)(void)) {
    return lower(layer)->set_call(lower(layer), name, call);
}

static void (*get_call(Layer *layer, const char *name))(void) {
    return lower(layer)->get_call(lower(layer), name);
}

static const char *next_call(Layer *layer, const char *name) {
    return lower(layer)->next_call(lower(layer), name);
}

static Layer ours = {
    0,           0,           0,         NULL,    "recollect-log", NULL,         open_file,     remove_file,
    access_file, full_path,   library,   library_error, library_symbol,  library_close, random_bytes, sleep_for,
    time_now,    last_error,  time_ms,   set_call, get_call,       next_call,
};

/* Called by SQLite when this file is loaded as an extension of it. */
EXPORT int recollect_log_init(void *connection, char **problem, void *const *interface) {
    Layer *(*find)(const char *) = (Layer * (*)(const char *)) interface[VFS_FIND];
    int (*add)(Layer *, int) = (int (*)(Layer *, int))interface[VFS_REGISTER];
    (void)connection;
    (void)problem;
    if (ours.below) return OK_FOR_GOOD;
    Layer *there = find(NULL);
    if (!there || there->version < 2) return ERROR;
    ours.version = there->version < 3 ? there->version : 3;
    ours.file_bytes = (int)sizeof(File) + there->file_bytes;
    ours.longest_path = there->longest_path;
    ours.below = there;
    int failed = add(&ours, 1); /* what is loaded next lies upon it */
    if (failed) ours.below = NULL;
    return failed ? failed : OK_FOR_GOOD;
}

/* -- for Python ----------------------------------------------------------------------------------------------------- */

static void let_go(void) {
    if (mine.is_on) {
        PyBuffer_Release(&mine.room);
        PyBuffer_Release(&mine.notes);
    }
    memset(&mine, 0, sizeof mine);
}

static PyObject *begin(PyObject *module, PyObject *args) {
    PyObject *room, *notes;
    Py_buffer views[2];
    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &room, &notes)) return NULL;
    if (mine.count) { /* SQLite believes it written, and would put a commit on top of a hole */
        PyErr_SetString(PyExc_RuntimeError, "what was gathered before was neither written nor given up");
        return NULL;
    }
    if (PyObject_GetBuffer(room, &views[0], PyBUF_WRITABLE) != 0) return NULL;
    if (PyObject_GetBuffer(notes, &views[1], PyBUF_WRITABLE) != 0) {
        PyBuffer_Release(&views[0]);
        return NULL;
    }
    let_go();
    mine.room = views[0];
    mine.notes = views[1];
    mine.is_on = 1;
    Py_RETURN_NONE;
}

static PyObject *end(PyObject *module, PyObject *nothing) {
    Gathered some = mine;
    (void)module;
    (void)nothing;
    let_go();
    Py_ssize_t frames = some.is_other ? 0 : some.frames;
    return Py_BuildValue("nLny#", some.count, (long long)some.first, frames, some.salts, (Py_ssize_t)SALTS);
}

static PyMethodDef methods[] = {
    {"begin", begin, METH_VARARGS, "begin(room, notes)"},
    {"end", end, METH_NOARGS, "end() -> (left, first, frames, salts)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_log_writes", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__log_writes(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddIntConstant(module, "interface", INTERFACE) != 0) Py_CLEAR(module);
    return module;
}
