"""Dialogues for the evaluation of extraction: what each states that is worth remembering, and how much else is said.

Written for this purpose; the expected are what a careful reader would note down, in the words of the speaker.
"""

from __future__ import annotations

from typing import NamedTuple


class Dialogue(NamedTuple):
    """Lines of a user, and the statements in them by category and beginning."""

    about: str
    lines: tuple[str, ...]
    expected: tuple[tuple[str, str], ...] = ()


DIALOGUES = (
    Dialogue(
        "settling in",
        (
            "Hi! How are you?",
            "My name is Ann Miller. I moved to Porto last month and I work at Acme as a designer.",
            "I'm vegetarian, what can I cook tonight?",
            "Thanks, that sounds great!",
            "I love it!",
            "By the way, my favourite colour is green.",
        ),
        (
            ("fact", "My name is Ann Miller"),
            ("fact", "I moved to Porto last month"),
            ("fact", "I work at Acme as a designer"),
            ("fact", "I'm vegetarian"),
            ("preference", "my favourite colour is green"),
        ),
    ),
    Dialogue(
        "a project",
        (
            "Which database should we take?",
            "Hmm, I'm not sure. If we had more time I would try both.",
            "OK, we decided to use PostgreSQL for the ledger.",
            "Let's go with the smaller instance for now",
            "The deadline is 2026-12-04.",
            "From now on, write commit messages in English.",
            "Never push to main without a review.",
            "Never mind, it works now.",
        ),
        (
            ("decision", "we decided to use PostgreSQL for the ledger"),
            ("decision", "Let's go with the smaller instance for now"),
            ("plan", "The deadline is 2026-12-04"),
            ("instruction", "From now on, write commit messages in English"),
            ("instruction", "Never push to main without a review"),
        ),
    ),
    Dialogue(
        "family and health",
        (
            "I have two kids and a dog.",
            "My daughter Emma is 7, and she asked me why the sky is blue. Why is it?",
            "I'm allergic to peanuts and I can't stand cilantro.",
            "My wife works as a nurse.",
            "I have a dentist appointment on Friday at 9.",
            "My boss is annoying today lol",
            "I usually wake up at 6.",
        ),
        (
            ("fact", "I have two kids and a dog"),
            ("fact", "My daughter Emma is 7"),
            ("fact", "I'm allergic to peanuts"),
            ("preference", "I can't stand cilantro"),
            ("fact", "My wife works as a nurse"),
            ("plan", "I have a dentist appointment on Friday at 9"),
            ("preference", "I usually wake up at 6"),
        ),
    ),
    Dialogue(
        "others",
        (
            "Bob prefers tabs over spaces, can you believe it?",
            "Alice Wong works at Globex.",
            "He said he lives in Rome.",
            "Everything works for now.",
            "Please remember that the office closes at six on Fridays.",
            "We're flying to Rome on Monday.",
        ),
        (
            ("fact", "Alice Wong works at Globex"),
            ("fact", "Bob prefers tabs over spaces"),
            ("fact", "the office closes at six on Fridays"),
            ("plan", "We're flying to Rome on Monday"),
        ),
    ),
    Dialogue(
        "said less plainly, which the rules miss",
        (
            "Hi, I'm Ann, nice to meet you",
            "Seafood and I don't get along, hives everywhere.",
            "Berlin has been home for ten years.",
        ),
        (
            ("fact", "I'm Ann"),
            ("fact", "Seafood and I don't get along"),
            ("fact", "Berlin has been home for ten years"),
        ),
    ),
    Dialogue(
        "chit-chat",
        (
            "Good morning!",
            "How was your weekend?",
            "I'm fine, thanks. A bit tired.",
            "I love how this works, I like that",
            "That's a great idea, I like your plan.",
            "lol I love you",
            "I'll check tomorrow. I'll talk to you on Monday!",
            "It will rain tomorrow, I guess.",
            "ok",
            "I have a question.",
            "I hate this bug!",
            "I always forget that.",
            "I'd like to know more about whales. I would like a refund.",
            "I'm going to the store.",
            "Never heard of it.",
            "I wish I had a dog.",
            "I used to live in Oslo.",
            "Maybe I'll move to Rome next year.",
            "I think I might be allergic to cats.",
            "Is it true that I live in a simulation?",
            "Do I work too much?",
            "What is my name?",
            'She wrote: "I live in Paris and I love jazz."',
            "> I live in a quoted line",
            "```\nI live in a code block\n```",
            "The hero says I am a king",
            "Python is a language. The weather is nice today.",
            "I agree with you. I know. I see. I understand.",
            "I am so happy today!",
            "Pretend I am a pirate.",
            "I'm from the future haha",
            "My favourite part is the ending",
            "I work for a living. I work too much.",
            "I moved to the next question already.",
            "I agreed to nothing.",
            "I will never do that on a Monday again.",
            "I can't stand up.",
            "I'm engaged in a discussion about it.",
            "I usually agree with him.",
            "Call me when you are done.",
            "I'm 5 minutes away. I'm 100% sure.",
            "Love is my religion.",
        ),
    ),
    Dialogue(
        "other languages",
        (
            "Ich wohne in Berlin und ich mag Tee.",
            "Meine Tochter heißt Emma.",
            "J'adore le café. Je m'appelle Luc.",
            "我住在北京，我喜欢喝茶。",
            "Vivo en Madrid y me gusta el café.",
            "東京に住んでいます。",
            "I dag er det fredag.",
            "أعيش في القاهرة",
        ),
    ),
)

# Written after the rules and never used to change them: what the rules do with what they were not made for. Beside each
# line stands whether it states something worth remembering.
HELD_OUT = (
    ("My partner's name is Jonas, and he bakes.", True),
    ("I relocated to Madrid for work.", True),
    ("We chose Kafka over RabbitMQ.", True),
    ("I have three cats.", True),
    ("I detest horror films.", True),
    ("I'm lactose intolerant.", True),
    ("My address is 12 Elm Street.", True),
    ("I'm leaving for Tokyo on 2027-01-09.", True),
    ("Never call me before nine.", True),
    ("I enjoy hiking in the Alps.", True),
    ("I teach maths at a high school.", True),
    ("My budget is 300 euros.", True),
    ("Priya lives in Pune.", True),
    ("I take my coffee black.", True),
    ("We've agreed on Wednesday for the retro.", True),
    ("I'm left-handed.", True),
    ("My flight is on Saturday.", True),
    ("I run a bookshop.", True),
    ("In future, reply in French.", True),
    ("I was diagnosed with asthma.", True),
    ("Can I ask you something?", False),
    ("I like how you explain things.", False),
    ("I have to go now.", False),
    ("I'm stuck on step three.", False),
    ("I'm at work.", False),
    ("I am on it.", False),
    ("I love when it snows here", False),
    ("I live for moments like this.", False),
    ("We have the same issue.", False),
    ("I use the word loosely.", False),
    ("I play along.", False),
    ("My bad!", False),
    ("My guess is Tuesday.", False),
    ("Let's go with your suggestion.", False),
    ("I'll send the file on Monday.", False),
    ("I decided to wait and see.", False),
    ("I'm a bit under the weather today.", False),
    ("I'm an early bird, apparently.", False),
    ("I don't like where this is heading.", False),
    ("The review is positive.", False),
    ("I prefer not to answer.", False),
    ("I don't want to talk about it.", False),
    ("Mark my words.", False),
    ("Will works for us?", False),
    ("I work from home today.", False),
)
