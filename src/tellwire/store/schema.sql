-- One file, laid out for the commit: per tick one row in `journal` and one batch of rows in `messages`.
-- Nothing on the hot path updates a row or touches an index; all the rest is derived behind a cursor.
create table journal (
    seq   integer primary key,  -- of the last event of the tick
    at    real not null,        -- engine time
    awake real not null,        -- awake time
    hash  blob not null,        -- SHA-256 over the previous hash and this row
    data  blob not null         -- JSON array of the tick's events, without bodies
);
create table messages (
    seq         integer primary key,  -- of its event; the message id is its short form
    sender      text not null,        -- agent id, empty for the broker
    sender_name text not null,
    recipients  text not null,        -- agent ids, by spaces
    "to"        text not null,        -- as addressed
    re          text not null,
    at          real not null,
    mode        text not null,
    kind        text not null,
    json        integer not null,     -- whether the body is a JSON value
    context     text not null,
    body        text not null         -- its words are in messages_fts
);
create table snapshots (
    seq  integer primary key,
    hash blob not null,               -- of the journal row it stands at
    data blob not null
);
-- derived in idle time, behind cursors; can be thrown away and made again
create table cursors (
    name text primary key,
    seq  integer not null
) without rowid;
create table receipts (
    message   integer not null,
    recipient text not null,
    state     text not null,
    evidence  text not null,
    at        real not null,
    primary key (message, recipient)
) without rowid;
create virtual table messages_fts using fts5 (
    body,                             -- the words of the body, as core/terms cuts and folds them
    content = 'messages', content_rowid = 'seq', columnsize = 0, tokenize = 'unicode61'
);
create table parties (
    agent text not null,              -- sender or recipient
    seq   integer not null,
    primary key (agent, seq)
) without rowid;
-- where the journal begins after old rows were let go: the chain is proved from here
create table anchor (
    seq  integer not null,
    hash blob not null
);
insert into messages_fts (messages_fts, rank) values ('automerge', 0);  -- store/search.py merges, in small steps
insert into anchor values (0, zeroblob(32));
insert into cursors values ('receipts', 0), ('search', 0), ('unindexed', 0);
