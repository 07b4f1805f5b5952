"""The tables of the chats' file, and how a file of an older format becomes one of this format.

A migration keeps all that was there and runs inside the transaction of whoever opens the file: it is done wholly or
not at all. Knows SQL only; what the tables are used for is known by the store, the shelf and the search.
"""

from __future__ import annotations

import sqlite3

VERSION = 3

# What is being written is not indexed until it is over: a reply grows several times a second.
_INDEXED = "state <> 'writing'"

_FIRST = (
    """CREATE TABLE chats (
        id INTEGER PRIMARY KEY, title TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL,
        head INTEGER, composer TEXT NOT NULL DEFAULT ''
    )""",
    """CREATE TABLE messages (
        id INTEGER PRIMARY KEY, chat_id INTEGER NOT NULL REFERENCES chats(id) ON DELETE CASCADE,
        parent_id INTEGER, role TEXT NOT NULL, text TEXT NOT NULL, runs TEXT NOT NULL DEFAULT '[]',
        state TEXT NOT NULL, note TEXT NOT NULL DEFAULT '', model TEXT NOT NULL DEFAULT '',
        created REAL NOT NULL, stats TEXT
    )""",
    "CREATE INDEX messages_of_chat ON messages(chat_id, parent_id)",
    """CREATE TABLE rounds (
        message_id INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE, seq INTEGER NOT NULL,
        data TEXT NOT NULL, PRIMARY KEY (message_id, seq)
    ) WITHOUT ROWID""",
)

_SECOND = (
    "CREATE TABLE folders (id INTEGER PRIMARY KEY, name TEXT NOT NULL, created REAL NOT NULL)",
    "ALTER TABLE chats ADD COLUMN folder_id INTEGER REFERENCES folders(id) ON DELETE SET NULL",
    "ALTER TABLE chats ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE chats ADD COLUMN deleted REAL",  # when it was put into the trash
    # Chats that are gone but whose kept replies the engine has not been seen to forget.
    "CREATE TABLE forgets (chat_id INTEGER PRIMARY KEY)",
    """CREATE VIRTUAL TABLE message_words USING fts5(
        text, content='messages', content_rowid='id', tokenize='unicode61 remove_diacritics 2', prefix='2 3'
    )""",
    """CREATE VIRTUAL TABLE title_words USING fts5(
        title, content='chats', content_rowid='id', tokenize='unicode61 remove_diacritics 2', prefix='2 3'
    )""",
    f"INSERT INTO message_words(rowid, text) SELECT id, text FROM messages WHERE {_INDEXED}",
    "INSERT INTO title_words(rowid, title) SELECT id, title FROM chats",
    f"""CREATE TRIGGER message_in AFTER INSERT ON messages WHEN new.{_INDEXED} BEGIN
        INSERT INTO message_words(rowid, text) VALUES (new.id, new.text);
    END""",
    f"""CREATE TRIGGER message_out AFTER DELETE ON messages WHEN old.{_INDEXED} BEGIN
        INSERT INTO message_words(message_words, rowid, text) VALUES ('delete', old.id, old.text);
    END""",
    # Two triggers, since each has a condition of its own: what was indexed must go out with its old words.
    f"""CREATE TRIGGER message_change AFTER UPDATE OF text, state ON messages WHEN old.{_INDEXED} BEGIN
        INSERT INTO message_words(message_words, rowid, text) VALUES ('delete', old.id, old.text);
        INSERT INTO message_words(rowid, text) SELECT new.id, new.text WHERE new.{_INDEXED};
    END""",
    f"""CREATE TRIGGER message_done AFTER UPDATE OF text, state ON messages
        WHEN new.{_INDEXED} AND NOT old.{_INDEXED} BEGIN
        INSERT INTO message_words(rowid, text) VALUES (new.id, new.text);
    END""",
    """CREATE TRIGGER title_in AFTER INSERT ON chats BEGIN
        INSERT INTO title_words(rowid, title) VALUES (new.id, new.title);
    END""",
    """CREATE TRIGGER title_out AFTER DELETE ON chats BEGIN
        INSERT INTO title_words(title_words, rowid, title) VALUES ('delete', old.id, old.title);
    END""",
    """CREATE TRIGGER title_change AFTER UPDATE OF title ON chats BEGIN
        INSERT INTO title_words(title_words, rowid, title) VALUES ('delete', old.id, old.title);
        INSERT INTO title_words(rowid, title) VALUES (new.id, new.title);
    END""",
)

# What a chat has of its own: a preset's name and settings that differ from all others', as JSON; "" for nothing.
_THIRD = ("ALTER TABLE chats ADD COLUMN own TEXT NOT NULL DEFAULT ''",)

_STEPS = {0: _FIRST, 1: _SECOND, 2: _THIRD}  # what leads from each format to the next


def bring_up(connection: sqlite3.Connection) -> None:
    """Bring a file, empty or of an older format, to this format. Call inside a transaction."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for step in range(version, VERSION):
        for statement in _STEPS[step]:
            connection.execute(statement)
    if version < VERSION:
        connection.execute(f"PRAGMA user_version={VERSION}")
