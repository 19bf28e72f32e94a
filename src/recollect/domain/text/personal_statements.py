"""What people state in talk: preferences, facts about people, decisions, plans, lasting instructions. By rules.

Precision comes first: a sentence is taken only if it says plainly what it says. Questions, doubts, wishes, reported
speech, code and small talk yield nothing, and whatever is taken stays in the speaker's own words. The rules know
English; other languages yield nothing. What they do not do: join what is said over several turns ("yes, that one"),
read irony, or judge whether a statement is true.

Some statements have a `slot`, of which one value holds at a time (where somebody lives, a favourite colour, liking or
disliking a thing): two values of one slot contradict each other. Every pattern meets a sentence of bounded length.
`tests/domain/text/test_personal_statements.py` counts what is found in talk, and what is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from recollect.domain.text.extractive import LONGEST_SENTENCE, sentences
from recollect.domain.text.similarity import every_word, words
from recollect.domain.text.time_words import MONTHS

Category = Literal["preference", "fact", "decision", "plan", "instruction"]
MOST_CHARACTERS = 8_000  # of a message: a longer one is a pasted text rather than something said


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence, or a part of one, as it was said, and what kind of thing it says."""

    text: str
    category: Category
    slot: str | None = None
    value: str = ""
    when: date | None = None
    """The day that a plan names, where that is certain."""


def _rule(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("’", "'"), re.IGNORECASE)


# --- What is not a statement -------------------------------------------------------------------------------
_CODE = re.compile(r"```.*?(?:```|\Z)|^\s{0,3}>.*?$", re.DOTALL | re.MULTILINE)
_ASKS = (
    r"(?:what|who|whom|whose|where|when|why|how|which|do|does|did|is|are|am|can|could|would|will|should|shall|have|has"
    r"|was|were|may|any|got)"
)
_QUESTION = _rule(rf"^{_ASKS} (?:i|you|we|he|she|it|they|there|this|that|my|your|our|the|a|an|any|many|much|about)\b")
_THEN_ASKS = _rule(rf"^(.{{8,}}?)\s*[,;–—-]+\s*(?:so |and |but )?{_ASKS}\b[^,;]*\?$")
_DOUBT = _rule(
    r"\b(?:if|maybe|perhaps|might|could|would|wish|wonder|wondering|guess|suppose|supposed|probably|unsure|imagine"
    r"|pretend|hypothetically|kidding|joking|whether|unless|used to|not sure|no idea|don't know|i thought|i think i"
    r"|almost|sort of|kind of|lol|haha|hehe|as if|hopefully|nothing)\b"
)
_REPORTED = _rule(
    r"\b(?:he|she|they|someone|somebody|people|everyone|everybody|it|article|book|character)\s+"
    r"(?:said|says|say|told|tells|asked|thinks?|claims?|claimed|wrote|writes)\b|[\"“”«»]"
)
_LEAD = _rule(
    r"^(?:(?:oh|well|so|ok|okay|yes|yeah|yep|no|nope|hi|hey|hello|thanks|thank you|btw|by the way|also|and|but|actually"
    r"|honestly|fyi|just so you know|for the record|you know|anyway|ah|hmm|um|look|sure|right|great|cool|nice|sorry"
    r"|first of all|in fact|to be honest|as i said|like i said|please note that|note that|plus|because|since)"
    r"(?:\s*[,!.:–—-]+\s*|\s+))+"
)
_PARTS = _rule(r"\s*(?:;|,)?\s+(?:and|but)\s+(?=(?:i|my|we|our|i'm|i've|we've|let's|i'll|we'll)\b)|\s*;\s+")
_VAGUE = _rule(
    r"^(?:it|that|this|these|those|them|him|her|you|your|yours|how|what|when|where|both|some|any|one|ones|none|all"
    r"|something|nothing|anything|everything|so|too|better|more|most|less|me|us|here|there|then|now|again|fine|well"
    r"|a living|with him|with her"
    r"|the (?:idea|way|sound|look|answer|result|first|second|last|other|new|next|same|one|suggestion|thought|future)"
    r"|to (?:know|see|hear|ask|say|think|thank|point|have|get|make|talk|be|do|try|go|add|change|use|point|start)"
    r"|being|having|getting|seeing|hearing|talking|when|if)\b"
)

# --- Preferences ---------------------------------------------------------------------------------------------
_HOW = r"(?:(?:really|absolutely|also|still|just|do|totally|always|generally|usually|personally|much|strongly|truly) )*"
_LIKES = _rule(rf"^(?:i|we) {_HOW}(?:love|like|enjoy|prefer|adore) (?P<what>.+)$")
_DISLIKES = _rule(
    rf"^(?:i|we) {_HOW}(?:hate|dislike|detest|loathe|(?:can't|cannot) (?:stand|bear)(?! (?:up|by|still|down))"
    r"|(?:don't|do not)(?: really)? (?:like|enjoy|eat|drink|want)|never (?:eat|drink|wear)) (?P<what>.+)$"
)
_FAN = _rule(r"^i(?:'m| am)(?P<no> not)? (?:really )?(?:a (?:big |huge )?fan of|into|fond of|keen on) (?P<what>.+)$")
_FAVOURITE = _rule(
    r"^my (?:all-time |absolute )?favou?rite (?!part|thing|one|bit)(?P<slot>[\w -]{2,40}?) (?:is|are) (?P<what>.+)$"
)
_HABIT = _rule(r"^(?:i|we) (?:always|never|usually|normally|typically) (?P<verb>[a-z]+) (?P<what>.+)$")
_NO_HABIT = frozenset(
    "thought heard knew seen saw said imagined expected realized realised been had mind understood got forget wanted"
    " know felt be have found liked loved think feel worry wonder end get meant mean ask say agree disagree".split()
)

# --- Facts about people --------------------------------------------------------------------------------------
_NAME = r"(?P<what>[A-Z][\w'-]+(?: [A-Z][\w'-]+){0,3})"
_CALLED = re.compile(rf"^(?:[Mm]y name(?:'s| is)|(?:[Yy]ou can |[Pp]lease |[Jj]ust )*[Cc]all me) {_NAME}[.!]*$")
_NOW = r"(?:(?:now|currently|just|recently|have|permanently|actually|finally) |'ve )*"
_HOME = _rule(
    rf"^i(?:'m| am|'ve)? ?{_NOW}(?:live|living|moved|relocated|based|reside)(?: back| over| out)? "
    r"(?:in|to|at|near) (?P<what>.+)$"
)
_FROM = _rule(r"^i(?:'m| am|was) (?:originally )?from (?P<what>.+)$")
_BORN = _rule(r"^i was born (?:in|on|at) (?P<what>.+)$")
_WORK = _rule(rf"^i(?:'m| am)? ?{_NOW}work(?:ing)? (?P<how>at|for|as) (?P<what>.+)$")
_IS_A = _rule(r"^i(?:'m| am) (?:a|an) (?P<what>[\w -]{3,60})$")
_NO_PROFESSION = _rule(
    r"^(?:bit|little|lot|fan|huge|big|mess|idiot|fool|few|couple|tad|beginner here|moron|bad|good|great|terrible|total"
    r"|complete|newbie|noob|minute|step|day|week|hundred|thousand|loss|hurry)\b"
)
_AGE = _rule(r"^i(?:'m| am) (?P<what>\d{1,3})(?: years old| years of age)?$")
_HEALTH = _rule(r"^i(?:'m| am) (?:severely |highly |also )?(?P<what>(?:allergic|intolerant) to .+)$")
_DIET = _rule(
    r"^i(?:'m| am) (?:a |an )?(?:strict )?(?P<what>vegetarian|vegan|pescatarian|gluten[- ]free"
    r"|lactose[- ]intolerant|coeliac|celiac|diabetic)\b.*$"
)
_STATUS = _rule(
    r"^i(?:'m| am)(?: now| recently)? (?P<what>(?:married|engaged)(?: to .+)?|single|divorced|widowed|pregnant|retired"
    r"|unemployed|self-employed|left-handed|right-handed|colou?r-?blind|dyslexic|deaf)$"
)
_NUMBER = r"(?:a|an|one|two|three|four|five|six|\d{1,2}|no)"
_RELATIVES = (
    r"wife|husband|spouse|partner|girlfriend|boyfriend|fianc[eé]e?|son|daughter|child|kid|baby|mother|father|mum|mom|dad"
    r"|sister|brother|twin|grandmother|grandfather|grandma|grandpa|aunt|uncle|cousin|niece|nephew|boss|manager|roommate"
    r"|flatmate|colleague|assistant|doctor|dentist|therapist|dog|cat|puppy|kitten|parrot|horse|rabbit"
)
_FAMILY = _rule(
    rf"^(?:i|we)(?:'ve| have)(?: got)? {_NUMBER} (?:[\w-]+ ){{0,2}}?(?P<what>children|grandchildren|siblings?|pets?"
    rf"|(?:{_RELATIVES})s?)\b.*$"
)
_MINE = _rule(
    rf"^my (?:[\w-]+ )?(?:{_RELATIVES})(?: (?-i:[A-Z])[\w'-]+)?(?:'s name)? (?:is (?=called |named |a |an |from |\d"
    r"|allergic |(?-i:[A-Z]))|lives |works |was born |turns |loves |likes |hates |prefers |speaks |studies "
    r"|has (?=a |an |two |three ))(?P<what>.+)$"
)
_CONTACT = _rule(
    r"^my (?:new |work |home |private |personal )?(?P<slot>birthday|anniversary|email(?: address)?|phone(?: number)?"
    r"|address|time ?zone|job|job title|employer|company|blood type|shoe size|wi-?fi|username|pronouns|nationality"
    r"|native language|mother tongue|budget|car|bike|hometown)(?: is| are|'s) (?P<what>.+)$"
)
_SPEAKS = re.compile(r"^I speak (?:fluent |some |a little )?(?P<what>[A-Z]\w+.*)$")
_STUDY = _rule(r"^i(?:'m| am)? ?(?:study|studying|studied|majored in|graduated from|graduated in) (?P<what>.+)$")
_USE = _rule(r"^(?:i|we) (?:mostly |mainly |only |currently |primarily |all )*(?:use|drive|own|play) (?P<what>.+)$")
_OTHER = re.compile(
    r"^(?P<who>[A-Z][\w'-]+(?: [A-Z][\w'-]+)?) (?:now |currently |also )?(?P<does>works (?:at|for|as)|lives in"
    r"|moved to|prefers|likes|loves|hates|speaks|was born (?:in|on)|is allergic to|is (?:my|our)) (?P<what>.+)$"
)
_NOBODY = frozenset(
    "everything nothing something someone everyone nobody anybody everybody anything today tomorrow yesterday life work"
    " time music love there this that it he she they we you who what which one some most all many people nobody god"
    " please thanks also maybe everyone's here weather".split()
)

# --- Decisions, plans, instructions --------------------------------------------------------------------------
_ALREADY = r"(?:(?:all|finally|now|just|both|already|have|also|eventually) |'ve )*"
_DECIDED = _rule(
    rf"^(?:i|we)(?:'ve| have)? ?{_ALREADY}(?:(?:decided|resolved|opted|chosen|chose|concluded) \w+"
    r"|agreed (?:to|on|that)|settled on) .+$"
)
_GOING_WITH = _rule(
    r"^(?:i|we)(?:'ll| will|'re| are|'m| am)(?: going to)? ?(?:going|go|stick|sticking|stay|staying) with (?P<what>.+)$"
)
_LETS = _rule(r"^let's (?:just )?(?:go with|use|stick with|stick to|settle on|switch to) (?P<what>.+)$")
_DECISION = _rule(r"^(?:(?:the|our|my) (?:final )?decision (?:is|was)|it(?:'s| is) (?:decided|settled|agreed)) .+$")
_MONTH = "(?:" + "|".join(f"{name}|{name[:3]}" for name in MONTHS if name != "May") + "|May)"
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_TIME = _rule(
    rf"\b(?:today|tonight|tomorrow|(?:{'|'.join(_WEEKDAYS)})s?|(?:next|this) (?:week|weekend|month|year|spring|summer"
    r"|autumn|fall|winter)|in (?:\d{1,3}|a|two|three|four|five|six) (?:days?|weeks?|months?)"
    rf"|(?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?|in {_MONTH}"
    r"|\d{4}-\d{2}-\d{2})\b"
)
_EVENTS = (
    r"meeting|appointment|interview|exam|flight|party|wedding|presentation|deadline|trip|surgery|operation|launch"
    r"|release|demo|conference|checkup|check-up|vacation|holiday|concert|marathon|graduation|move|due date|review"
)
_PLAN = _rule(
    r"^(?:i|we)(?:'ll| will|'m| am|'re| are)? ?(?:(?:going|planning) to|plan to|will|flying|fly|leaving|leave"
    r"|travell?ing|travel|meeting|meet|visiting|starting|start|moving|move|getting married|presenting|have to) .+$"
    rf"|^(?:i|we)(?:'ll| will) .+$|^(?:i|we)(?:'ve| have)(?: got)? (?:a|an|my|our|the) (?:[\w'-]+ ){{0,3}}?"
    rf"(?:{_EVENTS})\b.+$"
)
_DATED = _rule(
    rf"^(?:my|our|the) (?:[\w'-]+ ){{0,3}}?(?:{_EVENTS}) (?:is|are|starts|begins|will be"
    r"|(?:has|was|got|has been)(?: been)? moved|takes place) .+$"
)
_SMALL_PROMISE = _rule(
    r"^(?:i|we)(?:'ll| will|'m going to| am going to) (?:never|be (?:back|there|right|late|fine|happy|glad)|get back"
    r"|talk|speak|see|let you|check|try|think|ask|ping|text|do (?:it|that|this)|look|read|take a look|keep|wait"
    r"|come back|have to (?:think|check|go))\b"
)
_VERBS = (
    "use|write|call|ask|answer|reply|respond|send|include|add|show|give|put|keep|make|start|end|format|run|commit|push"
    "|deploy|check|say|tell|schedule|book|order|speak|address|do|delete|remove|change|touch|share|mention|suggest"
    "|recommend|assume|explain|translate|summari[sz]e|round|cite|quote|test|leave|let|open|close|set|name|log|store"
    "|save|buy|wake|remind|confirm|list|sign"
)
_INSTRUCTION = _rule(
    rf"^(?:please )?(?:(?:from now on|going forward|in future|in the future),? .+|(?:make sure (?:to |you )?)?"
    rf"(?:always|never|don't ever|do not ever) (?:{_VERBS})\b .+|i (?:want|need) you to (?:always|never) .+)$"
)
_REMEMBER = _rule(r"^(?:please )?(?:remember|don't forget|keep in mind|bear in mind)(?: that|:) (?P<what>.{8,})$")


def statements(text: str, on: date | None = None) -> list[Statement]:
    """What a message states; `on` is the day it was said, from which "tomorrow" counts."""
    if len(text) > MOST_CHARACTERS:
        return []
    plain = _CODE.sub("\n", text.replace("’", "'"))
    found: dict[str, Statement] = {}
    for sentence in sentences(plain):
        for part in _parts(sentence.text):
            statement = _read(part, on)
            if statement is not None:
                found.setdefault(statement.text.casefold(), statement)
    return list(found.values())


def read_statement(text: str) -> Statement | None:
    """What a text that is one statement says; of someone else's words "the user lives in …" as of "I live in …"."""
    plain = " ".join(text.replace("’", "'").split())
    first = _THE_USER.sub("I ", plain)
    for spoken, meant in _IN_FIRST_PERSON if first != plain else ():
        first = spoken.sub(meant, first, count=1)
    return _read(first.strip().rstrip(".!"), None) if len(plain) <= LONGEST_SENTENCE else None


_THE_USER = _rule(r"^(?:the )?user(?=\s)\s+")
_IN_FIRST_PERSON = tuple(
    (_rule(rf"^i {spoken}\b"), f"I {meant}")
    for spoken, meant in (
        ("is", "am"), ("has", "have"), ("lives", "live"), ("works", "work"), ("likes", "like"), ("loves", "love"),
        ("prefers", "prefer"), ("hates", "hate"), ("dislikes", "dislike"), ("enjoys", "enjoy"),
        ("doesn't", "don't"), ("does not", "do not"), ("speaks", "speak"), ("uses", "use"),
    )
)  # fmt: skip


def _parts(sentence: str) -> Iterator[str]:
    sentence = " ".join(sentence.split())
    if sentence.endswith("?"):
        before = _THEN_ASKS.match(sentence)
        if before is None:
            return
        sentence = before[1]
    for part in _PARTS.split(sentence):
        yield _LEAD.sub("", part.strip(" .!…-–—*•\t")).strip()


def _read(part: str, on: date | None) -> Statement | None:
    told = _REMEMBER.match(part)
    if told is not None and not part.endswith("?"):
        inner = _read(told["what"], on)
        return inner or Statement(told["what"], "fact")
    if len(part.split()) < 2 or _QUESTION.match(part) or _REPORTED.search(part):
        return None
    instruction = _INSTRUCTION.match(part)
    if instruction is not None:
        return Statement(part, "instruction")
    if _DOUBT.search(part):
        return None
    return _decision(part) or _plan(part, on) or _fact(part) or _preference(part)


def _preference(part: str) -> Statement | None:
    favourite = _FAVOURITE.match(part)
    if favourite is not None:
        return Statement(part, "preference", f"favourite {_folded(favourite['slot'])}", _folded(favourite["what"]))
    fan = _FAN.match(part)
    for rule, likes in ((_LIKES, "yes"), (_DISLIKES, "no"), (_FAN, "no" if fan and fan["no"] else "yes")):
        found = rule.match(part)
        if found is not None and not _VAGUE.match(found["what"]):
            return Statement(part, "preference", f"likes {_folded(found['what'])}", likes)
    habit = _HABIT.match(part)
    if habit is None or habit["verb"].lower() in _NO_HABIT or _VAGUE.match(habit["what"]):
        return None
    return Statement(part, "preference")


_ONE_VALUE = (  # what one value holds of at a time
    (_CALLED, "name"),
    (_HOME, "home"),
    (_BORN, "birth"),
    (_AGE, "age"),
    (_DIET, "diet"),
)
_PLAIN = (_HEALTH, _FROM, _FAMILY, _SPEAKS, _STUDY, _USE)


def _fact(part: str) -> Statement | None:
    for rule, slot in _ONE_VALUE:
        found = rule.match(part)
        if found is not None and not _VAGUE.match(found["what"]):
            return Statement(part, "fact", slot, _folded(found["what"]))
    work = _WORK.match(part)
    if work is not None and not _VAGUE.match(work["what"]):
        slot = "occupation" if work["how"].lower() == "as" else "employer"
        return Statement(part, "fact", slot, _folded(work["what"]))
    contact = _CONTACT.match(part)
    if contact is not None and not _VAGUE.match(contact["what"]):
        return Statement(part, "fact", f"my {_folded(contact['slot'])}", _folded(contact["what"]))
    profession = _IS_A.match(part)
    if profession is not None and not _NO_PROFESSION.match(profession["what"]):
        return Statement(part, "fact")
    for rule in (*_PLAIN, _STATUS, _MINE):
        found = rule.match(part)
        if found is not None and not _VAGUE.match(found["what"]):
            return Statement(part, "fact")
    return _of_another(part)


def _of_another(part: str) -> Statement | None:
    found = _OTHER.match(part)
    if found is None or _VAGUE.match(found["what"]) or found["who"].split()[0].casefold() in _NOBODY:
        return None
    slots = {"lives in": "home", "moved to": "home", "works at": "employer", "works for": "employer"}
    slot = slots.get(found["does"], {"works as": "occupation"}.get(found["does"]))
    return Statement(part, "fact", f"{_folded(found['who'])} {slot}" if slot else None, _folded(found["what"]))


def _decision(part: str) -> Statement | None:
    if _DECIDED.match(part) or _DECISION.match(part):
        return Statement(part, "decision")
    for rule in (_GOING_WITH, _LETS):
        found = rule.match(part)
        if found is not None and not _VAGUE.match(found["what"]):
            return Statement(part, "decision")
    return None


def _plan(part: str, on: date | None) -> Statement | None:
    time = _TIME.search(part)
    if time is None or _SMALL_PROMISE.match(part) or not (_PLAN.match(part) or _DATED.match(part)):
        return None
    return Statement(part, "plan", when=_day(time[0], part, on))


def _day(time: str, part: str, on: date | None) -> date | None:
    """The day that is named, where there is no doubt about it; "next Friday" is one of two."""
    named = time.lower()
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", named):
        try:
            return date.fromisoformat(named)
        except ValueError:
            return None
    if on is None:
        return None
    if named in ("today", "tonight", "tomorrow"):
        after = "day after tomorrow" in part.lower()
        return on + timedelta(days=2 if after else int(named == "tomorrow"))
    if named in _WEEKDAYS and f"next {named}" not in part.lower():
        return on + timedelta(days=(_WEEKDAYS.index(named) - on.weekday() - 1) % 7 + 1)
    return None


# --- Comparing -----------------------------------------------------------------------------------------------
_NEGATION = _rule(r"\b(?:not|never|no|don't|doesn't|didn't|isn't|aren't|can't|cannot|won't|hate|dislike|stopped)\b")
_UNTIL = _rule(r"\b(?:because|since|with|for|as|but|which|where|and|now|these days|any ?more|last|this)\b.*$|,.*$")
_UNTOLD = frozenset({"a", "an", "the", "my", "our", "on", "in", "at", "of", "to"})


def _folded(value: str) -> str:
    """A value as it is compared: its words without what is added to it."""
    told = every_word(_UNTIL.sub("", value).strip() or value)
    return " ".join(word for word in told if word not in _UNTOLD)


def is_negated(text: str) -> bool:
    return bool(_NEGATION.search(text.replace("’", "'")))


def says_the_same(one: str, other: str) -> bool:
    """Whether two texts say the same in nearly the same words."""
    if is_negated(one) != is_negated(other):
        return False
    told, known = ({*words(text)} - _SPEAKER or {*every_word(text)} for text in (one, other))
    return bool(told) and len(told & known) >= 0.8 * max(len(told), len(known))


_SPEAKER = frozenset(words("user really absolutely also totally truly still"))


def contradict(one: Statement, other: Statement) -> bool:
    """Whether they give the same slot another value."""
    return one.slot is not None and one.slot == other.slot and bool(one.value and other.value != one.value)


def repeats(one: Statement, other: Statement) -> bool:
    """Whether a statement gives a slot the value that it has, and says hardly anything more."""
    if one.slot is None or (one.slot, one.value) != (other.slot, other.value):
        return False
    return len(words(one.text)) <= len(words(other.text)) + 1
