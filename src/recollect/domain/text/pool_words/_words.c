/* Words in ASCII texts; word_counts.py has the same in Python, with the same results.
 *
 *   count(text, starts, terms, counts)
 *           str, int64[n], tuple of m str, float64[m * n]
 *
 * Adds to counts[t * n + i] how many words of text i have term t for a stem. `text` is all texts joined, each followed
 * by a character that is in no word, `starts` where they begin; case does not matter. A term is of small letters and
 * digits; an empty one is left out. What is in `tokenizer.py:_IRREGULAR` has no stem here: the caller looks for that.
 * The GIL is kept: 40,000 characters take some 20 microseconds.
 */
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Counts up when a signature changes: word_counts.py does not use a module left over from an older build. */
#define INTERFACE 1
#define LONGEST 64   /* of a stem: tokenizer.py:LONGEST */
#define AT_ONCE 64   /* terms in one pass, a bit for each */

/* What a byte is as part of a word: itself, as a small letter, or 0. */
static unsigned char in_word[256];

static int ends(const char *word, size_t size, const char *ending, size_t length) {
    return size >= length + 3 && memcmp(word + size - length, ending, length) == 0;
}

static size_t stemmed(const char *word, size_t size) {
    static const char *const endings[] = {"ings", "ies", "ing", "ied", "ed", "es", "s"};
    static const size_t lengths[] = {4, 3, 3, 3, 2, 2, 1};
    if (size > LONGEST) return LONGEST;
    for (size_t i = 0; i < size; i++)
        if (word[i] < 'a') return size; /* a digit */
    if (size > 5 && word[size - 1] == 'y' && word[size - 2] == 'l') size -= 2;
    if (!(word[size - 1] == 's' && size > 1 && word[size - 2] == 's'))
        for (int i = 0; i < 7; i++)
            if (ends(word, size, endings[i], lengths[i])) {
                size -= lengths[i];
                break;
            }
    char last = word[size - 1];
    if (size > 3 && last == word[size - 2] && last != 'l' && last != 's' && last != 'z') size--;
    last = word[size - 1];
    return size > 3 && (last == 'e' || last == 'i' || last == 'y') ? size - 1 : size;
}

typedef struct {
    const char *letters;
    size_t size;
    double *counts;
} Term;

/* At most AT_ONCE terms, none of them empty. Most places are passed by two looks into tables. */
static void count_some(const char *text, size_t size, const int64_t *starts, size_t texts, const Term *terms, size_t count) {
    uint64_t first[256] = {0}, second[256] = {0};
    for (size_t t = 0; t < count; t++)
        for (int c = 0; c < 256; c++) {
            if (in_word[c] == (unsigned char)terms[t].letters[0]) first[c] |= (uint64_t)1 << t;
            if (terms[t].size < 2 || in_word[c] == (unsigned char)terms[t].letters[1]) second[c] |= (uint64_t)1 << t;
        }
    size_t at_text = 0;
    unsigned char before = 0;
    for (size_t at = 0; at < size; at++) {
        unsigned char here = (unsigned char)text[at];
        uint64_t may_be = first[here] & second[(unsigned char)text[at + 1]]; /* a str ends with a 0 */
        int inside = before;
        before = in_word[here];
        if (!may_be || inside) continue;
        char word[LONGEST + 1];
        size_t length = 0;
        for (; length <= LONGEST && in_word[(unsigned char)text[at + length]]; length++)
            word[length] = (char)in_word[(unsigned char)text[at + length]];
        size_t stem = stemmed(word, length);
        while (at_text + 1 < texts && (size_t)starts[at_text + 1] <= at) at_text++;
        for (size_t t = 0; may_be; t++, may_be >>= 1)
            if ((may_be & 1) && terms[t].size == stem && memcmp(word, terms[t].letters, stem) == 0)
                terms[t].counts[at_text] += 1;
    }
}

static PyObject *count(PyObject *module, PyObject *args) {
    PyObject *text, *terms, *starts_given, *counts_given;
    Py_buffer starts, counts;
    Py_ssize_t size;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOO", &text, &starts_given, &terms, &counts_given)) return NULL;
    const char *letters = PyUnicode_AsUTF8AndSize(text, &size);
    Py_ssize_t wanted = letters ? PyTuple_Size(terms) : -1;
    if (wanted < 0) return NULL;
    if (PyObject_GetBuffer(starts_given, &starts, PyBUF_SIMPLE) != 0) return NULL;
    if (PyObject_GetBuffer(counts_given, &counts, PyBUF_WRITABLE) != 0) {
        PyBuffer_Release(&starts);
        return NULL;
    }
    size_t texts = (size_t)starts.len / 8;
    int is_aligned = (uintptr_t)starts.buf % 8 == 0 && (uintptr_t)counts.buf % 8 == 0;
    if (starts.len % 8 || (size_t)counts.len != 8 * texts * (size_t)wanted || !is_aligned)
        PyErr_SetString(PyExc_ValueError, "the buffers do not fit each other");
    for (Py_ssize_t t = 0; texts && t < wanted && !PyErr_Occurred();) {
        Term some[AT_ONCE];
        size_t held = 0;
        for (; t < wanted && held < AT_ONCE; t++) {
            Py_ssize_t length;
            PyObject *term = PyTuple_GetItem(terms, t);
            const char *spelt = term ? PyUnicode_AsUTF8AndSize(term, &length) : NULL;
            if (!spelt) break;
            if (length == 0 || length > LONGEST || !in_word[(unsigned char)spelt[0]]) continue; /* no word begins so */
            some[held].letters = spelt;
            some[held].size = (size_t)length;
            some[held++].counts = (double *)counts.buf + (size_t)t * texts;
        }
        if (!PyErr_Occurred()) count_some(letters, (size_t)size, starts.buf, texts, some, held);
    }
    PyBuffer_Release(&counts);
    PyBuffer_Release(&starts);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"count", count, METH_VARARGS, "count(text, starts, terms, counts)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_words", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__words(void) {
    for (int c = '0'; c <= '9'; c++) in_word[c] = (unsigned char)c;
    for (int c = 'a'; c <= 'z'; c++) in_word[c] = in_word[c - 32] = (unsigned char)c;
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddIntConstant(module, "interface", INTERFACE) != 0) Py_CLEAR(module);
    return module;
}
