package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	eventColumns  = `time, type, agent_uid, agent_name, name_key, owner, task_id, status, text, data`
	selectEvents  = `SELECT seq, time, type, agent_uid, agent_name, owner, task_id, status, text, data FROM events WHERE `
	selectLastSeq = `SELECT coalesce(max(seq), 0) FROM events`
	// selectChangedAgents repeats the condition of the index literally, so that SQLite uses the index and never reads output
	// events.
	selectChangedAgents = `SELECT agent_uid, EXISTS (SELECT 1 FROM leases WHERE key = '` + fleet.AgentLeasePrefix + `' || agent_uid AND owner <> ? AND until > ?)
		FROM (SELECT DISTINCT agent_uid FROM
			(SELECT agent_uid FROM events INDEXED BY events_changes WHERE type <> 'task_output' AND seq > ? UNION ALL SELECT value FROM json_each(?)))`
)

var insertEvent = `INSERT INTO events (` + eventColumns + `) VALUES (` + record.Placeholders(eventColumns) + `)`

// unknownSeq is the value of Store.newestSeq while a transaction with events commits, and, if that fails, until a later
// one has committed.
const unknownSeq = -1

// LastSeq returns the Seq of the newest event, see fleet.Store. Only this process appends events, so it normally knows
// the Seq without a query.
func (s *Store) LastSeq(ctx context.Context) (seq int64, err error) {
	if err := s.calls.Begin(); err != nil {
		return 0, err
	}
	defer s.calls.End()
	if seq := s.newestSeq.Load(); seq != unknownSeq {
		return seq, ctx.Err()
	}
	err = s.reader.with(ctx, func(c *conn) error {
		// The query reads one row and never waits. Making it interruptible would double its cost.
		seq, err = c.queryInt64(context.WithoutCancel(ctx), selectLastSeq)
		return contextError(ctx, err)
	})
	return seq, err
}

// Subscribe returns a channel that gets a value after an Update has written something, see fleet.Store.
func (s *Store) Subscribe() (signal <-chan struct{}, cancel func()) { return s.subs.Subscribe() }

func (t *baseTx) LastSeq() (int64, error) {
	return record.QueryFirst(t, record.ScanInt64, selectLastSeq)
}

func (t *baseTx) Events(f fleet.EventFilter, w fleet.EventWindow) ([]fleet.Event, error) {
	if w.Limit <= 0 {
		return nil, t.err
	}
	where, args := eventConditions(f)
	if !w.Newest {
		return record.QueryAll(t, scanEvent, selectEvents+where+`seq > ? ORDER BY seq LIMIT ?`, append(args, w.After, w.Limit)...)
	}
	events, err := record.QueryAll(t, scanEvent, selectEvents+where+`seq < ? ORDER BY seq DESC LIMIT ?`, append(args, cmp.Or(w.Before, math.MaxInt64), w.Limit)...)
	slices.Reverse(events)
	return events, err
}

func (t *baseTx) ChangedAgents(after int64, others []string, worker string) (changed []fleet.ChangedAgent, last int64, err error) {
	if last, err = t.LastSeq(); err != nil || last <= after && len(others) == 0 {
		return nil, last, err
	}
	changed, err = record.QueryAll(t, func(row scanner) (c fleet.ChangedAgent, err error) { return c, row.Scan(&c.UID, &c.LeasedElsewhere) },
		selectChangedAgents, worker, micros(time.Now()), after, jsonList(append([]string{}, others...)))
	return changed, last, err
}

func (t *tx) Append(e *fleet.Event) error {
	if record.NeedsSpace(e) {
		if err := t.checkSpace(); err != nil {
			return err
		}
	}
	seq, err := t.exec(insertEvent, micros(e.Time), string(e.Type), e.AgentUID, e.AgentName, record.NameKey(e.AgentName), e.Owner,
		e.TaskID, e.Status, e.Text, e.Data)
	if err != nil {
		return t.fail(fmt.Errorf("append event %s of agent %s: %w", e.Type, e.AgentUID, err))
	}
	if t.firstEvent == nil {
		t.firstEvent = e
	}
	t.lastEvent = seq
	return nil
}

// eventConditions returns the filter as SQL, with AND after each condition, and its arguments. The SQL depends only on which
// fields are set, so there are few different statements for a connection to keep prepared.
func eventConditions(f fleet.EventFilter) (where string, args []any) {
	var b strings.Builder
	add := func(condition string, arg any) {
		b.WriteString(condition + ` AND `)
		args = append(args, arg)
	}
	switch {
	case f.Owner == "":
	case len(f.SharedUIDs) == 0:
		add(`owner = ?`, f.Owner)
	default:
		b.WriteString(`(owner = ? OR agent_uid ` + inList + `) AND `)
		args = append(args, f.Owner, jsonList(f.SharedUIDs))
	}
	if len(f.Projects) > 0 {
		b.WriteString(inProjects + ` AND `)
		args = append(args, jsonList(f.Projects), jsonList(f.Projects))
	}
	if f.AgentName != "" {
		add(`name_key = ?`, record.NameKey(f.AgentName))
	}
	if f.AgentUID != "" {
		add(`agent_uid = ?`, f.AgentUID)
	}
	if f.TaskID != "" {
		add(`task_id <> '' AND task_id = ?`, f.TaskID)
	}
	if len(f.Selector) > 0 {
		matches := func() string {
			return strings.Join(record.SelectorConditions(f.Selector, inList, func(v any) string { args = append(args, encode([]any{v})...); return `?` }), ` AND `)
		}
		b.WriteString(`CASE WHEN task_id <> '' THEN EXISTS (SELECT 1 FROM tasks AS t WHERE t.id = task_id AND ` + matches() +
			`) ELSE EXISTS (SELECT 1 FROM agents AS a WHERE a.uid = agent_uid AND ` + matches() + `) END AND `)
	}
	if f.WithoutDetail {
		add(`type <> ?`, string(fleet.EventTaskDetail))
	}
	if f.WithoutOutput {
		add(`(type NOT IN (`+record.QuoteList(fleet.OutputEvents)+`) OR task_id <> '' AND task_id `+inList+`)`, jsonList(f.OutputOf))
	}
	if len(f.Types) > 0 {
		add(`type `+inList, jsonList(f.Types))
	}
	return b.String(), args
}

func scanEvent(row scanner) (fleet.Event, error) {
	var e fleet.Event
	err := row.Scan(&e.Seq, (*record.TimeColumn)(&e.Time), (*string)(&e.Type), &e.AgentUID, &e.AgentName, &e.Owner, &e.TaskID, &e.Status, &e.Text, &e.Data)
	return e, err
}
