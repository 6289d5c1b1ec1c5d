package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"fleet/internal/fleet"
)

// importedTables are the tables that Import fills. Each table comes after the tables that it refers to.
var importedTables = []string{
	"agents", "agent_configs", "tasks", "task_descriptions", "task_queue", "payloads", "task_changes", "task_checks", "task_landings", "task_reviews", "task_attachments", "messages", "questions", "events",
	"requests", "audit", "tokens", "identities", "sessions", "tools", "resources", "budget_ledger", "budget_totals", "deliveries", "agent_remains", "notes", "secrets", "stored", "stored_projects",
	"usage_days",
}

// replacedTables are the tables that a server writes to when it starts. Import deletes their rows first.
var replacedTables = []string{"notes", "secrets", "stored", "stored_changes", "stored_projects", "usage_days"}

// placePaths are the paths to the names of places in the JSON of columns, by table and column. A value is the name of a place, the
// reference of a project, or a list of such references.
var placePaths = map[string]map[string][]string{
	"agent_configs": {"config": {"place"}},
	"tasks":         {"delegation": {"grant.projects"}},
	"task_queue":    {"entry": {"target.place", "unconfined_in"}},
	"task_landings": {"landing": {"place"}},
	"resources":     {"body": {"place", "projects", "task.project", "value"}}, // of pools, schedules, webhooks and budgets
}

// Import copies the tables of another store into the database in one transaction, and returns the number of rows by table.
// The database must have no agents, no tasks and no history; otherwise the error is INVALID_ARGUMENT. rows returns all rows of
// a table. Their columns must have the same names as in this store, times must be microseconds since 1970, and booleans must be
// 0 or 1. Import ignores columns that this store does not have. places has the new names of places by their old names; it may be nil.
//
// Import calls onCommit right after the commit, and returns its error. The end of ctx does not interrupt the commit, because its
// result would then be unknown, and has no effect after the commit. If Import fails, counts is nil.
func Import(ctx context.Context, url string, places map[string]string, rows func(table string) (*sql.Rows, error), onCommit func() error) (counts map[string]int64, err error) {
	pool, err := newPool(ctx, url, sideConns, nil)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	_, schema, err := inspectServer(ctx, pool)
	if err == nil {
		_, err = migrate(ctx, pool, schema)
	}
	if err != nil {
		return nil, contextError(ctx, translate(err))
	}
	counts = map[string]int64{}
	err = pgx.BeginFunc(context.WithoutCancel(ctx), pool, func(tx pgx.Tx) error {
		if err := prepareTables(ctx, tx); err != nil {
			return err
		}
		if err := setTriggers(ctx, tx, "DISABLE"); err != nil {
			return err
		}
		for _, table := range importedTables {
			n, err := copyTable(ctx, tx, table, places, rows)
			if err != nil {
				return fmt.Errorf("copy %s: %w", table, err)
			}
			counts[table] = n
		}
		if err := advanceSequences(ctx, tx); err != nil {
			return err
		}
		return setTriggers(ctx, tx, "ENABLE")
	})
	if err != nil {
		return nil, contextError(ctx, translate(err))
	}
	if err := onCommit(); err != nil {
		return nil, err
	}
	// Autovacuum would do this later, so an error can be ignored, but queries would be slow until then.
	_, _ = pool.Exec(ctx, `VACUUM (ANALYZE) `+strings.Join(importedTables, `, `))
	return counts, nil
}

// prepareTables locks the tables, so that no server can write to them before the commit, and deletes the rows of replacedTables. It
// returns an error if another table has rows, because the database then already has a fleet.
func prepareTables(ctx context.Context, tx pgx.Tx) error {
	for _, table := range append(slices.Clone(importedTables), "inbox", "stored_changes") {
		if _, err := tx.Exec(ctx, `LOCK TABLE `+table+` IN EXCLUSIVE MODE`); err != nil {
			return err
		}
		if slices.Contains(replacedTables, table) {
			if _, err := tx.Exec(ctx, `DELETE FROM `+table); err != nil {
				return err
			}
			continue
		}
		var n int64
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM `+table+` LIMIT 1000) AS first`).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			return fleet.Errorf(fleet.ReasonInvalidArgument, "the database is not empty: %s has rows; import into a new database", table)
		}
	}
	return nil
}

// copyTable copies the rows of one table, with the columns that this store computes from others, and returns their number.
func copyTable(ctx context.Context, tx pgx.Tx, table string, places map[string]string, rows func(table string) (*sql.Rows, error)) (int64, error) {
	types, err := readColumnTypes(ctx, tx, table)
	if err != nil {
		return 0, err
	}
	source, err := rows(table)
	if err != nil {
		return 0, err
	}
	defer source.Close()
	s := &importRows{rows: source, table: table, places: places, paths: map[int][]string{}}
	names, err := source.Columns()
	if err != nil {
		return 0, err
	}
	var columns []string
	for i, name := range names {
		if oid, ok := types[name]; ok {
			columns = append(columns, name)
			s.columns, s.types = append(s.columns, i), append(s.types, oid)
		}
	}
	s.width = len(names)
	for column, paths := range placePaths[table] {
		s.paths[slices.Index(columns, column)] = paths
	}
	switch table {
	case "tasks":
		columns = append(columns, "search")
		s.descriptionIndex, s.summaryIndex = slices.Index(names, "description"), slices.Index(names, "summary")
	case "agents":
		s.placeIndex = slices.Index(columns, "place")
	case "tokens":
		s.projectsIndex = slices.Index(columns, "projects")
	case "events":
		columns = append(columns, "id")
		s.seqIndex = slices.Index(names, "seq")
	}
	return tx.CopyFrom(ctx, pgx.Identifier{table}, columns, s)
}

// readColumnTypes returns the object ids of the types of the table's columns, by column.
func readColumnTypes(ctx context.Context, tx pgx.Tx, table string) (map[string]uint32, error) {
	rows, err := tx.Query(ctx, `SELECT attname, atttypid FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped`, table)
	if err != nil {
		return nil, err
	}
	types := map[string]uint32{}
	var name string
	var oid uint32
	_, err = pgx.ForEachRow(rows, []any{&name, &oid}, func() error {
		types[name] = oid
		return nil
	})
	return types, err
}

// importRows converts rows of another store. It is a pgx.CopyFromSource.
type importRows struct {
	rows    *sql.Rows
	table   string
	places  map[string]string // new names by old ones
	width   int               // number of columns of the other store
	columns []int             // positions of the copied columns in the rows of the other store
	types   []uint32          // object ids of their types

	paths                                    map[int][]string // placePaths, by position among the copied columns
	placeIndex, projectsIndex                int              // positions of an agent's place and a token's projects among the copied columns
	descriptionIndex, summaryIndex, seqIndex int              // positions, in the rows of the other store, of the columns for a computed column
}

// Next advances to the next row.
func (s *importRows) Next() bool { return s.rows.Next() }

// Err returns the error that ended the rows.
func (s *importRows) Err() error { return s.rows.Err() }

// Values returns the values of the current row, converted to the types of this store, followed by the computed column, if any.
func (s *importRows) Values() ([]any, error) {
	row, dest := make([]any, s.width), make([]any, s.width)
	for i := range row {
		dest[i] = &row[i]
	}
	if err := s.rows.Scan(dest...); err != nil {
		return nil, err
	}
	values := make([]any, len(s.columns), len(s.columns)+1)
	for i, pos := range s.columns {
		v, err := convert(row[pos], s.types[i])
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	for pos, paths := range s.paths {
		if text, ok := values[pos].(string); ok { // not NULL
			renamed, err := s.renameInJSON(text, paths)
			if err != nil {
				return nil, err
			}
			values[pos] = renamed
		}
	}
	switch s.table {
	case "tasks":
		description, _ := row[s.descriptionIndex].(string)
		summary, _ := row[s.summaryIndex].(string)
		values = append(values, escape(searchText(&fleet.Task{Description: description, Summary: summary})))
	case "agents":
		if old, ok := values[s.placeIndex].(string); ok {
			values[s.placeIndex] = s.renamePlace(old)
		}
	case "tokens":
		if old, ok := values[s.projectsIndex].(string); ok {
			values[s.projectsIndex] = s.renamePlaces(old)
		}
	case "events":
		values = append(values, row[s.seqIndex])
	}
	return values, nil
}

// renamePlaces replaces the names of places in the projects of a token. Each line is a project.
func (s *importRows) renamePlaces(projects string) string {
	lines := strings.Split(projects, "\n")
	for i, line := range lines {
		lines[i] = s.renameProject(line)
	}
	return strings.Join(lines, "\n")
}

// renameProject replaces the name of the place in the reference of a project: NAME or PLACE/NAME.
func (s *importRows) renameProject(ref string) string {
	if place, project, found := strings.Cut(ref, "/"); found {
		return s.renamePlace(place) + "/" + project
	}
	return ref
}

// renamePlace returns the new name of the place.
func (s *importRows) renamePlace(name string) string { return cmp.Or(s.places[name], name) }

// renameInJSON replaces the names of places at the paths in the JSON object.
func (s *importRows) renameInJSON(text string, paths []string) (string, error) {
	var body map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&body); err != nil {
		return "", err
	}
	changed := false
	for _, path := range paths {
		keys := strings.Split(path, ".")
		last := keys[len(keys)-1]
		object := body
		for _, key := range keys[:len(keys)-1] {
			object, _ = object[key].(map[string]any)
		}
		rename := s.renameProject
		switch {
		case last == "place" || last == "unconfined_in":
			rename = s.renamePlace
		case last == "value" && object["scope"] != string(fleet.BudgetProject):
			continue
		}
		switch v := object[last].(type) {
		case string:
			object[last] = rename(v)
			changed = changed || object[last] != v
		case []any:
			for i := range v {
				if old, ok := v[i].(string); ok {
					v[i] = rename(old)
					changed = changed || v[i] != old
				}
			}
		}
	}
	if !changed {
		return text, nil
	}
	renamed, err := json.Marshal(body)
	return string(renamed), err
}

// convert converts a value of the other store to the type of this store's column.
func convert(v any, oid uint32) (any, error) {
	switch v := v.(type) {
	case int64:
		switch oid {
		case pgtype.TimestamptzOID:
			return time.UnixMicro(v), nil
		case pgtype.BoolOID:
			return v != 0, nil
		}
	case string:
		if oid == pgtype.ByteaOID {
			return []byte(v), nil
		}
		return escape(v), nil
	case []byte:
		if oid != pgtype.ByteaOID {
			return escape(string(v)), nil
		}
	case nil, float64:
	default:
		return nil, fmt.Errorf("a value has the type %T, which cannot be converted", v)
	}
	return v, nil
}

// setTriggers enables or disables the triggers that write stored_projects and usage_days. They are disabled while Import
// copies these tables. action is "ENABLE" or "DISABLE".
func setTriggers(ctx context.Context, tx pgx.Tx, action string) error {
	for table, triggers := range map[string][]string{
		"stored_changes": {"stored_project_changes", "usage_changes"}, "events": {"stored_project_events"}, "tasks": {"usage_task_added"},
	} {
		for _, trigger := range triggers {
			if _, err := tx.Exec(ctx, `ALTER TABLE `+table+` `+action+` TRIGGER `+trigger); err != nil {
				return err
			}
		}
	}
	return nil
}

// advanceSequences makes the numbers of new events and rows continue after those of the copied rows. It also deletes the rows that
// copying has added to stored_changes, because the copied table stored already includes these sizes.
func advanceSequences(ctx context.Context, tx pgx.Tx) error {
	statements := []string{
		`DELETE FROM stored_changes`,
		`UPDATE sequencer SET seq = (SELECT coalesce(max(seq), 0) FROM events) WHERE id = 1`,
		`SELECT setval(pg_get_serial_sequence('inbox', 'id'), (SELECT seq + 1 FROM sequencer WHERE id = 1))`,
	}
	for _, table := range []string{"agents", "tasks", "messages", "questions", "tokens", "sessions", "tools", "audit", "budget_ledger", "task_reviews"} {
		statements = append(statements, fmt.Sprintf(`SELECT setval(pg_get_serial_sequence('%[1]s', 'n'), (SELECT coalesce(max(n), 0) + 1 FROM %[1]s))`, table))
	}
	_, err := tx.Exec(ctx, strings.Join(statements, "; "), pgx.QueryExecModeSimpleProtocol)
	return err
}
