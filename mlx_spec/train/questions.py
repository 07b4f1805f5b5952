"""Questions that people ask a chat model, put together from forms and topics: prompts for a target to answer.

Written for this project, so that what a drafter of ours has learned from can be passed on with it. `questions` is
endless and always in the same order for a seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

FORMS = (
    "What is {topic}?",
    "Explain {topic} in simple words.",
    "Explain {topic} to a ten-year-old.",
    "How does {topic} work?",
    "Why does {topic} matter?",
    "Write a short story about {topic}.",
    "Write a poem about {topic}.",
    "Write an essay about {topic} in five paragraphs.",
    "Write a friendly email to a colleague about {topic}.",
    "Write a blog post about {topic} for beginners.",
    "Give me a list of ten facts about {topic}.",
    "List the advantages and disadvantages of {topic}.",
    "Compare {topic} and {other}.",
    "What are the differences between {topic} and {other}?",
    "How are {topic} and {other} related?",
    "Summarize what is known about {topic}.",
    "Give me three tips about {topic}.",
    "What are common mistakes people make with {topic}?",
    "Imagine you are a teacher. Start a lesson on {topic}.",
    "Pretend to be an expert on {topic} and answer my question: where should I begin?",
    "Make a study plan for learning about {topic} in four weeks.",
    "Write a dialogue between two friends who talk about {topic}.",
    "What is the history of {topic}?",
    "Who first discovered or invented {topic}, and when?",
    "Describe {topic} using only short sentences.",
    "Give an example of {topic} from everyday life.",
    "Is {topic} good or bad for society? Give arguments for both sides.",
    "Write a product description for something that has to do with {topic}.",
    "Draft a speech of two minutes about {topic}.",
    "Create a quiz with five questions about {topic}, with the answers.",
    "Explain step by step how to get started with {topic}.",
    "What would the world be like without {topic}?",
    "Rewrite this sentence so that it sounds formal: I really like {topic}, it is super cool.",
    'Translate into French: "We talked about {topic} for an hour."',
    'Translate into Spanish: "My sister wants to learn more about {topic}."',
    'Translate into German: "Yesterday I read a book about {topic}."',
    "Write a Python function that counts how often a word about {topic} occurs in a text.",
    "Write a Python class that keeps a list of notes about {topic}.",
    "Write an HTML page with a heading and three paragraphs about {topic}.",
    "I have {n} apples, give {m} of them away and buy {k} more. How many do I have now? Think step by step.",
    "A train travels {n} kilometres in {m} hours. How fast is it?",
    "If a book costs {n} dollars and is sold {m} percent off, what is its price?",
    "What is {n} plus {m} times {k}?",
    "Solve for x: {m}x + {k} = {n}.",
    "Write a function in Python that {task}.",
    "Write a program in JavaScript that {task}.",
    "How can I {task} in Python? Show the code and explain it.",
    "I am worried about {topic}. What should I do?",
    "Can you recommend a way to relax after a day full of {topic}?",
    "Give me a recipe that fits the theme of {topic}.",
    "Plan a trip of three days for somebody who loves {topic}.",
    "Write a review of a documentary about {topic}.",
    "What questions should I ask in an interview about {topic}?",
    "Write the opening scene of a play in which {topic} plays a part.",
    "Extract the main points from this text: {topic} has changed a lot over the years. Some people think that it is "
    "important, others prefer {other}. Experts say that both will be needed in the future.",
    "Summarize this text in one sentence: Last week the town held a fair about {topic}. More than {n} people came, and "
    "many asked about {other}. The mayor promised to hold it again next year.",
    "Sort these into groups and explain why: {topic}, {other}, {third}.",
    "What do {topic}, {other} and {third} have in common?",
)

# As lists, one word a line, these would be screens of quotes.
TOPICS = (  # noqa: SIM905
    "photosynthesis|gravity|the water cycle|black holes|plate tectonics|evolution|DNA|vaccines|the immune system|"
    "climate change|renewable energy|solar panels|wind power|nuclear fusion|electric cars|batteries|the moon|"
    "the planets|comets|the Big Bang|quantum mechanics|relativity|light|sound waves|magnetism|electricity|atoms|"
    "the periodic table|acids and bases|enzymes|bacteria|viruses|mushrooms|bees|whales|dinosaurs|birds|dogs|cats|"
    "rain forests|deserts|coral reefs|volcanoes|earthquakes|glaciers|rivers|the ocean|weather forecasts|tornadoes|"
    "the Roman Empire|ancient Egypt|ancient Greece|the Middle Ages|the Renaissance|the French Revolution|"
    "the Industrial Revolution|the First World War|the Second World War|the Cold War|the space race|democracy|"
    "human rights|the constitution|elections|taxes|inflation|supply and demand|interest rates|the stock market|"
    "saving money|budgeting|insurance|starting a business|marketing|leadership|teamwork|time management|"
    "public speaking|job interviews|remote work|project management|negotiation|customer service|"
    "machine learning|neural networks|the internet|computer networks|encryption|passwords|databases|"
    "operating systems|compilers|programming|recursion|sorting algorithms|binary search|linked lists|"
    "object-oriented programming|version control|software testing|web design|mobile apps|robots|"
    "artificial intelligence|chess|mathematics|algebra|geometry|calculus|statistics|probability|prime numbers|"
    "fractions|logic puzzles|music theory|the piano|the guitar|jazz|classical music|opera|painting|photography|"
    "sculpture|architecture|film making|theatre|poetry|novels|science fiction|fairy tales|mythology|philosophy|"
    "ethics|stoicism|psychology|memory|sleep|dreams|stress|meditation|yoga|running|swimming|cycling|football|"
    "basketball|tennis|nutrition|vitamins|cooking|baking bread|coffee|tea|cheese|chocolate|gardening|composting|"
    "houseplants|knitting|carpentry|camping|hiking|fishing|travel|learning a language|grammar|spelling|"
    "friendship|parenting|weddings|birthdays|holidays|libraries|museums|schools|universities|hospitals|"
    "public transport|bridges|ships|airplanes|trains|bicycles|recycling|plastic waste|clean water|farming|"
    "the human heart|the brain|the lungs|bones|muscles|the skin|the eye|blood|diabetes|allergies|first aid|"
    "self-confidence|kindness|honesty|courage|creativity|curiosity|happiness|loneliness|money|advertising|"
    "newspapers|social media|video games|board games|magic tricks|clocks|maps|calendars|"
    "New York|Paris|Japan|India|Africa|Antarctica|the Amazon|Mount Everest|London|Italy|Mexico|Canada|Australia"
).split("|")

TASKS = (  # noqa: SIM905
    "reverses a string|checks whether a word is a palindrome|finds the largest number in a list|sorts a list of names|"
    "counts the vowels in a sentence|computes the factorial of a number|prints the Fibonacci numbers|"
    "reads a file line by line|removes duplicates from a list|merges two sorted lists|converts Celsius to Fahrenheit|"
    "checks whether a number is prime|adds two matrices|finds the most common word in a text|"
    "draws a triangle of stars|validates an email address|rolls two dice|shuffles a deck of cards|"
    "computes the average of a list|counts words in a file|finds the longest common prefix|"
    "turns a number into words|parses a date|groups items by their first letter|implements a stack|"
    "implements a queue|searches a sorted list|flattens a nested list|counts down from ten"
).split("|")


def questions(seed: int = 0) -> Iterator[str]:
    """Questions without end."""
    chance = random.Random(seed)
    while True:
        topic, other, third = chance.sample(TOPICS, 3)
        yield chance.choice(FORMS).format(
            topic=topic,
            other=other,
            third=third,
            task=chance.choice(TASKS),
            n=chance.randrange(20, 400),
            m=chance.randrange(2, 20),
            k=chance.randrange(2, 50),
        )
