"""Words are ours: the same questions find the same memories, in the same order, on every store and in every script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EVERY_STORE

TEXTS = """
The naïve café owner served crème brûlée
A naive reading of the menu
She gave generously to the shelter
They are a generous couple
The old oak is dying
Plants die without water
He lied about the lying witness
We went camping beside the lake
The tent leaked while they camped
Her running shoes wore out
I run every morning before work
The build failed with err-4012 in the parser
ERR_4012 came back after the upgrade
See src/recollect/domain/text/tokenizer.py for the rules
The domain/text/tokenizer.py file was moved
Version 11 is not version 1
Meet me on 2024-05-07 at noon
Mail ann.lee@example.org about the invoice
Ships carry companies and their babies
The studies were happily finished
我昨天和孩子们一起去了北京的故宫
北京的冬天很冷
小猫喜欢喝牛奶
数据库的密码存放在保险箱里
上海的地铁非常方便
東京タワーに行きました
昨日は図書館で本を読みました
彼女は猫を二匹飼っています
コーヒーにアレルギーがあります
ฉันรักแมวของฉัน
วันนี้อากาศร้อนมากที่กรุงเทพ
เขาชอบกินข้าวผัด
학교에서 한국어를 공부했습니다
우리 집 고양이는 물을 싫어해요
서울의 겨울은 춥습니다
الكِتابُ على الطاولة
أحمد يحب القهوة
إلى المدرسة كل صباح
Die Straße war gesperrt, und die Häuser standen leer
Über die Brücke fährt kein Zug
STRASSE und BRÜCKE ohne Umlaute
Işık hızı sabittir
İstanbul'da yağmur yağıyor
Diyarbakır ılık bir şehir
Launch day 🚀 went well
We ❤️ the new office 🎉
GPT-4模型在我们的测试中表现很好
Der 東京 trip cost 3,000 €
हिन्दी में लिखना अच्छा लगता है
मुझे चाय पसंद है
Ёжик живёт в лесу
Ежик спит зимой
Žluťoučký kůň pěl ódy
Łódź is a city in Poland
Ένα καφέ στην Αθήνα
שלום עולם
សួស្តីពិភពលោក
ສະບາຍດີຊາວໂລກ
မင်္ဂလာပါ ကမ္ဘာ
The ﬁnal ﬂoor has ① room
""".strip().splitlines()

# Each with a stretch of the text that must come first; None where several are as good.
QUESTIONS: dict[str, str | None] = {
    "naive cafe": "naïve café",
    "naïve": None,
    "generous": None,
    "generously": None,
    "dying": None,
    "die": None,
    "did he lie": "lied about",
    "camp": None,
    "who camped by a lake": "camping beside",
    "running": None,
    "err-4012 parser": "err-4012",
    "Err 4012": None,
    "domain/text/tokenizer.py": None,
    "src/recollect": "src/recollect",
    "version 11": "Version 11",
    "2024-05-07": "2024-05-07",
    "ann.lee@example.org": "ann.lee",
    "company baby ship": "Ships carry",
    "happy study finish": "studies were happily",
    "北京": None,
    "故宫": "故宫",
    "密码": "密码",
    "猫": None,
    "牛奶 小猫": "小猫",
    "東京": None,
    "図書館": "図書館",
    "アレルギー": "アレルギー",
    "แมว": "รักแมว",
    "กรุงเทพ": "กรุงเทพ",
    "학교": "학교에서",
    "고양이": "고양이는",
    "집": "우리 집",
    "كتاب": None,
    "الكتاب": "الكِتابُ",
    "strasse": None,
    "brucke": None,
    "isik": "Işık",
    "istanbul": "İstanbul",
    "🚀": "🚀",
    "हिन्दी": "हिन्दी",
    "ежик": None,
    "kun": "kůň",
    "lodz": "Łódź",
    "καφε": "καφέ",
    "שלום": "שלום",
    "សួស្តី": "សួស្តី",
    "ສະບາຍດີ": "ສະບາຍດີ",
    "ကမ္ဘာ": "ကမ္ဘာ",
    "final floor": "ﬁnal",
    "GPT-4 模型": "GPT-4",
}
STORES = {"memory": lambda folder: "memory://", **EVERY_STORE}


def _filled(address: str) -> Any:
    mem = recollect.open(address, embedder="none", citation_roots=[])
    session = mem.session.add("All").id
    mem.remember_many([{"content": text} for text in TEXTS])
    mem.message.add_many([{"role": "user", "text": text, "session": session} for text in TEXTS])
    return mem


def _answers(mem: Any) -> dict[str, tuple[list[str], list[str]]]:
    return {
        question: (
            [hit.text for hit in mem.recall(question, limit=10).hits],
            [hit.text for hit in mem.message.search(question, limit=10).hits],
        )
        for question in QUESTIONS
    }


@pytest.fixture(scope="module")
def expected() -> Iterator[dict[str, tuple[list[str], list[str]]]]:
    with _filled("memory://") as mem:
        yield _answers(mem)


def test_there_are_forty_questions_and_more() -> None:
    assert len(QUESTIONS) >= 40


@pytest.mark.parametrize("name", sorted(STORES))
def test_the_same_ten_come_first_on_every_store(
    name: str, tmp_path: Path, expected: dict[str, tuple[list[str], list[str]]]
) -> None:
    with _filled(STORES[name](tmp_path)) as mem:
        answers = _answers(mem)
    differing = [question for question in QUESTIONS if answers[question] != expected[question]]
    assert differing == []


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_words_are_found_in_every_script(question: str, expected: dict[str, tuple[list[str], list[str]]]) -> None:
    recalled, said = expected[question]
    first = QUESTIONS[question]
    assert recalled
    assert said
    assert first is None or (first in recalled[0] and first in said[0])


PAIRS = {
    "naive cafe": ("The naïve café owner served crème brûlée", "A naive reading of the menu"),
    "generous": ("She gave generously to the shelter", "They are a generous couple"),
    "dying": ("The old oak is dying", "Plants die without water"),
    "Err 4012": ("The build failed with err-4012 in the parser", "ERR_4012 came back after the upgrade"),
    "猫": ("小猫喜欢喝牛奶", "彼女は猫を二匹飼っています"),
    "北京": ("我昨天和孩子们一起去了北京的故宫", "北京的冬天很冷"),
    "strasse": ("Die Straße war gesperrt, und die Häuser standen leer", "STRASSE und BRÜCKE ohne Umlaute"),
    "ежик": ("Ёжик живёт в лесу", "Ежик спит зимой"),
}


@pytest.mark.parametrize("question", PAIRS)
def test_what_is_spelt_or_bent_differently_is_found_alike(
    question: str, expected: dict[str, tuple[list[str], list[str]]]
) -> None:
    assert set(PAIRS[question]) <= set(expected[question][0])
    assert set(PAIRS[question]) <= set(expected[question][1])
