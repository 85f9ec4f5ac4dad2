-- The tables of the first version, as it made them.
CREATE TABLE counts (
    survey VARCHAR(16) NOT NULL,
    day DATE NOT NULL,
    "group" INTEGER NOT NULL,
    report BIGINT NOT NULL,
    count BIGINT NOT NULL,
    PRIMARY KEY (survey, day, "group", report)
)
 WITHOUT ROWID;
CREATE TABLE coverage (
    survey VARCHAR(16) NOT NULL,
    day DATE NOT NULL,
    "group" INTEGER NOT NULL,
    sums BLOB NOT NULL,
    PRIMARY KEY (survey, day, "group")
)
 WITHOUT ROWID;
CREATE TABLE keys (
    survey VARCHAR(16) NOT NULL,
    "key" VARCHAR(32) NOT NULL,
    PRIMARY KEY (survey, "key")
)
 WITHOUT ROWID;
CREATE TABLE redemptions (
    survey VARCHAR(16) NOT NULL,
    invitation BLOB NOT NULL,
    blinded BLOB NOT NULL,
    PRIMARY KEY (survey, invitation)
)
 WITHOUT ROWID;
CREATE TABLE refusals (
    survey VARCHAR(16) NOT NULL,
    day DATE NOT NULL,
    count BIGINT NOT NULL,
    PRIMARY KEY (survey, day)
)
 WITHOUT ROWID;
CREATE TABLE settings (
    name VARCHAR(40) NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE surveys (
    id VARCHAR(16) NOT NULL,
    "plan" TEXT NOT NULL,
    group_question TEXT,
    public_results BOOLEAN NOT NULL,
    opened DATE NOT NULL,
    closed DATE,
    invitation_secret BLOB,
    credential_key BLOB,
    PRIMARY KEY (id)
);
CREATE TABLE totals (
    survey VARCHAR(16) NOT NULL,
    day DATE NOT NULL,
    "group" INTEGER NOT NULL,
    count BIGINT NOT NULL,
    PRIMARY KEY (survey, day, "group")
)
 WITHOUT ROWID;
