package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

// minVersion is the server_version_num of the oldest version of Postgres that is tested.
const minVersion = 150000

const (
	selectServerFacts = `SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), current_setting('max_connections')::int,
		pg_is_in_recovery() OR current_setting('default_transaction_read_only')::bool`
	selectBackendPID = `SELECT pg_backend_pid()`
	// selectRights selects whether the role may create tables, and whether it may read and write a sample of the tables. It
	// ignores tables that do not exist.
	selectRights = `SELECT coalesce(has_schema_privilege(current_schema(), 'CREATE'), false), coalesce(bool_and(has_table_privilege(name, 'SELECT') AND has_table_privilege(name, 'INSERT') AND has_table_privilege(name, 'UPDATE')
		AND has_table_privilege(name, 'DELETE')), true) FROM unnest(ARRAY['agents', 'events', 'leases', 'tasks']) AS name WHERE to_regclass(name) IS NOT NULL`
)

// errTransactionPooling means that a pooler gives each transaction another connection.
var errTransactionPooling = errors.New("a pooler between Fleet and the database gives each transaction another connection, and Fleet needs sessions: " +
	"use the pooler's session mode, or connect to the database itself")

// inspectServer returns how many connections the server accepts, and the version of the database's schema. It returns an
// error if Fleet cannot work with the server, the database or this role. It changes nothing.
func inspectServer(ctx context.Context, pool *pgxpool.Pool) (conns int, schema record.Schema, err error) {
	if conns, err = checkServer(ctx, pool); err != nil {
		return 0, schema, err
	}
	if schema, err = readSchema(ctx, pool); err != nil {
		return 0, schema, err
	}
	return conns, schema, checkRights(ctx, pool, schema)
}

// checkServer returns how many connections the server accepts. It returns an error if Fleet cannot work with the server or
// the database.
func checkServer(ctx context.Context, pool *pgxpool.Pool) (conns int, err error) {
	if err := checkSessions(ctx, pool); err != nil {
		return 0, err
	}
	var version int
	var encoding string
	var readOnly bool
	err = pool.QueryRow(ctx, selectServerFacts).Scan(&version, &encoding, &conns, &readOnly)
	switch {
	case err != nil:
		return 0, err
	case version < minVersion:
		return 0, fmt.Errorf("the server is Postgres %d, which is too old: use version %d or newer", version/10000, minVersion/10000)
	case encoding != "UTF8":
		return 0, fmt.Errorf("the database has the encoding %s: create it with ENCODING 'UTF8'", encoding)
	case readOnly:
		return 0, fleet.Errorf(fleet.ReasonBackendUnavailable, "the database only allows reads: connect to the primary, for example with target_session_attrs=read-write and several hosts in the URL, and not with default_transaction_read_only")
	}
	return conns, nil
}

// checkSessions returns errTransactionPooling if two connections share a session of the server. A pooler gives the session of the last
// transaction to the next one, unless others use the pooler at this moment, so checkSessions tries more than once.
func checkSessions(ctx context.Context, pool *pgxpool.Pool) error {
	one, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer one.Release()
	two, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer two.Release()
	for range 3 {
		var pids [2]int64
		for i, conn := range []*pgxpool.Conn{one, two} {
			// The simple protocol uses no prepared statement, which another session would not have.
			if err := conn.QueryRow(ctx, selectBackendPID, pgx.QueryExecModeSimpleProtocol).Scan(&pids[i]); err != nil {
				return err
			}
		}
		if pids[0] == pids[1] {
			return errTransactionPooling
		}
	}
	return nil
}

// checkRights returns an error if the role lacks a right that the server needs on a database with the schema.
func checkRights(ctx context.Context, pool *pgxpool.Pool, schema record.Schema) error {
	var canCreate, canWrite bool
	if err := pool.QueryRow(ctx, selectRights).Scan(&canCreate, &canWrite); err != nil {
		return err
	}
	switch {
	case schema.Have < schema.Want && !canCreate:
		return fmt.Errorf("the schema has version %d and needs version %d, and the role may not create tables: run `fleet migrate up` with a role that may, and grant the server's role access to the tables (docs/operate/postgres.md)", schema.Have, schema.Want)
	case !canWrite:
		return errors.New("the role may not read and write all tables: grant it SELECT, INSERT, UPDATE and DELETE (docs/operate/postgres.md)")
	}
	return nil
}
