package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	selectEvents = `SELECT seq, time, type, agent_uid, agent_name, owner, task_id, status, text, data FROM events WHERE `
	inInbox      = `SELECT EXISTS (SELECT FROM inbox WHERE `
	lastSeq      = `SELECT seq FROM sequencer WHERE id = 1`
	// changedAgents repeats the index's condition, so that the index is used and output is not read.
	changedAgents = `SELECT DISTINCT agent_uid FROM events WHERE type <> 'task_output' AND seq > $1`
	insertEvents  = `INSERT INTO inbox (time, type, agent_uid, agent_name, name_key, owner, task_id, status, text, data)
		SELECT time, type, agent_uid, agent_name, name_key, owner, task_id, status, text, data
		FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bytea[])
			WITH ORDINALITY AS e (time, type, agent_uid, agent_name, name_key, owner, task_id, status, text, data, n)
		ORDER BY n RETURNING id`
)

// smallEvent is the largest event that is accepted on a full disk, in bytes.
const smallEvent = 4096

// LastSeq returns the Seq of the newest event, see fleet.Store.
func (s *Store) LastSeq(ctx context.Context) (seq int64, err error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	read := func(ctx context.Context) error { return s.reader.QueryRow(ctx, lastSeq).Scan(&seq) }
	err = answering(ctx, answerLimit, read)
	if errors.Is(err, errNoAnswer) {
		s.replaceConns()
	}
	if unreachable(err) && ctx.Err() == nil { // the connection may have been cut while nobody used it
		err = answering(ctx, answerLimit, read)
	}
	return seq, plain(ctx, translate(err))
}

func (t *readTx) LastSeq() (int64, error) { return first(t, scanInt64, lastSeq) }

// LastSeq counts events that this transaction has appended, as far as it is known.
func (t *tx) LastSeq() (int64, error) {
	seq, err := t.readTx.LastSeq()
	return seq + int64(len(t.events)), err
}

func (t *readTx) Events(f fleet.EventFilter, after int64, limit int) ([]fleet.Event, error) {
	if limit <= 0 {
		return nil, t.err
	}
	c := conditions(f)
	if err := t.whole(f, c); err != nil {
		return nil, err
	}
	return all(t, scanEvent, selectEvents+c.where+`seq > `+c.arg(after)+` ORDER BY seq LIMIT `+c.arg(limit), c.args...)
}

func (t *readTx) LastEvents(f fleet.EventFilter, limit int) ([]fleet.Event, error) {
	if limit <= 0 {
		return nil, t.err
	}
	c := conditions(f)
	if err := t.whole(f, c); err != nil {
		return nil, err
	}
	events, err := all(t, scanEvent, selectEvents+c.where+`seq > 0 ORDER BY seq DESC LIMIT `+c.arg(limit), c.args...)
	slices.Reverse(events)
	return events, err
}

// whole makes the view begin again if it shows changes of an agent or a task whose events are not in the log yet.
func (t *readTx) whole(f fleet.EventFilter, c *clause) error {
	if !t.view || t.last || f.AgentUID == "" && f.TaskID == "" {
		return nil
	}
	early, err := first(t, func(row scanner) (early bool, err error) { return early, row.Scan(&early) }, inInbox+c.where+`true)`, c.args...)
	if err == nil && early {
		err = t.failed(errEarly)
	}
	return err
}

func (t *readTx) ChangedAgents(after int64) ([]string, error) {
	return all(t, scanString, changedAgents, after)
}

func (t *tx) Append(e *fleet.Event) error {
	if t.err != nil {
		return t.err
	}
	if e.Type == fleet.EventTaskOutput || len(e.Data)+len(e.Text) > smallEvent {
		if err := t.grow(); err != nil {
			return err
		}
	}
	t.events = append(t.events, e)
	return nil
}

// eventArgs returns the arguments of insertEvents.
func eventArgs(events []*fleet.Event) []any {
	var texts [8][]string
	times, data := make([]time.Time, len(events)), make([][]byte, len(events))
	for i, e := range events {
		times[i], data[i] = e.Time, e.Data
		for j, text := range []string{string(e.Type), e.AgentUID, e.AgentName, record.Key(e.AgentName), e.Owner, e.TaskID, e.Status, e.Text} {
			texts[j] = append(texts[j], escape(text))
		}
	}
	args := []any{times}
	for _, column := range texts {
		args = append(args, column)
	}
	return append(args, data)
}

// clause is a condition with its values.
type clause struct {
	where string // each condition followed by AND
	args  []any
}

// arg adds a value, and returns its placeholder.
func (c *clause) arg(v any) string {
	c.args = append(c.args, v)
	return mark(len(c.args))
}

func (c *clause) add(condition string, v any) {
	c.where += strings.ReplaceAll(condition, "?", c.arg(v)) + ` AND `
}

// visible selects what the owner has, and what belongs to the shared agents; everything if there is no owner.
func (c *clause) visible(owner string, shared []string) {
	switch {
	case owner == "":
	case len(shared) == 0:
		c.add(`owner = ?`, owner)
	default:
		c.where += `(owner = ` + c.arg(owner) + ` OR agent_uid = ANY(` + c.arg(shared) + `)) AND `
	}
}

// ofProjects selects what belongs to agents of the projects; everything if there are none.
func (c *clause) ofProjects(projects []string) {
	if len(projects) > 0 {
		c.add(`agent_uid IN (SELECT uid FROM agents WHERE project <> '' AND (project = ANY(?) OR place || '/' || project = ANY(?)))`, projects)
	}
}

// conditions returns the filter as SQL. There are few texts, whatever the values, since every connection keeps them prepared.
func conditions(f fleet.EventFilter) *clause {
	c := &clause{}
	c.visible(f.Owner, f.Shared)
	c.ofProjects(f.Projects)
	if f.AgentName != "" {
		c.add(`name_key = ?`, record.Key(f.AgentName))
	}
	if f.AgentUID != "" {
		c.add(`agent_uid = ?`, f.AgentUID)
	}
	if f.TaskID != "" {
		c.add(`task_id <> '' AND task_id = ?`, f.TaskID)
	}
	if f.Quiet {
		c.add(`(type NOT IN (`+record.Quoted(fleet.OutputEvents)+`) OR task_id <> '' AND task_id = ANY(?))`, f.OutputOf)
	}
	if len(f.Types) > 0 {
		types := make([]string, len(f.Types))
		for i, typ := range f.Types {
			types[i] = string(typ)
		}
		c.add(`type = ANY(?)`, types)
	}
	return c
}

func scanEvent(row scanner) (fleet.Event, error) {
	var e fleet.Event
	err := row.Scan(&e.Seq, &e.Time, (*string)(&e.Type), &e.AgentUID, &e.AgentName, &e.Owner, &e.TaskID, &e.Status, &e.Text, &e.Data)
	e.Time = e.Time.UTC()
	return e, err
}
