package postgres

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	selectEvents        = `SELECT seq, time, type, agent_uid, agent_name, owner, task_id, status, text, data FROM events WHERE `
	inboxHasEventsWhere = `SELECT EXISTS (SELECT FROM inbox WHERE `
	selectLastSeq       = `SELECT seq FROM sequencer WHERE id = 1`
	// selectChangedAgents repeats the condition of the index, so that the database uses the index and reads no output events.
	selectChangedAgents = `SELECT agent_uid,
			coalesce((SELECT owner <> $2 AND until > clock_timestamp() FROM leases WHERE key = '` + fleet.AgentLeasePrefix + `' || agent_uid), false)
		FROM (SELECT agent_uid FROM events WHERE type <> 'task_output' AND seq > $1 UNION SELECT unnest($3::text[])) AS changed`
	insertEvents = `INSERT INTO inbox (time, type, agent_uid, agent_name, name_key, owner, task_id, status, text, data)
		SELECT time, type, agent_uid, agent_name, name_key, owner, task_id, status, text, data
		FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bytea[])
			WITH ORDINALITY AS e (time, type, agent_uid, agent_name, name_key, owner, task_id, status, text, data, n)
		ORDER BY n RETURNING id`
)

// setKeyedSettings is the statement that applies keyedSettings to the rest of the transaction.
var setKeyedSettings = func() string {
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(keyedSettings)) {
		settings = append(settings, `set_config('`+name+`', '`+keyedSettings[name]+`', true)`)
	}
	return `SELECT ` + strings.Join(settings, `, `)
}()

// LastSeq returns the Seq of the newest event, see fleet.Store.
func (s *Store) LastSeq(ctx context.Context) (seq int64, err error) {
	if err := s.calls.Begin(); err != nil {
		return 0, err
	}
	defer s.calls.End()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	read := func(ctx context.Context) error { return s.reader.QueryRow(ctx, selectLastSeq).Scan(&seq) }
	err = withAnswerTimeout(ctx, answerTimeout, read)
	if errors.Is(err, errNoAnswer) {
		s.replaceConns()
	}
	if isUnreachable(err) && ctx.Err() == nil { // the connection may have been lost while it was idle, so try another one
		err = withAnswerTimeout(ctx, answerTimeout, read)
	}
	return seq, contextError(ctx, translate(err))
}

func (t *baseTx) LastSeq() (int64, error) { return queryFirst(t, record.ScanInt64, selectLastSeq) }

// LastSeq returns the Seq of the newest event, including the events that this transaction has appended. Events that
// other transactions commit meanwhile can make the real numbers higher.
func (t *tx) LastSeq() (int64, error) {
	seq, err := t.baseTx.LastSeq()
	return seq + int64(len(t.events)), err
}

func (t *baseTx) Events(f fleet.EventFilter, w fleet.EventWindow) ([]fleet.Event, error) {
	if w.Limit <= 0 {
		return nil, t.err
	}
	c := eventConditions(f)
	if err := t.checkComplete(f, c); err != nil {
		return nil, err
	}
	if !w.Newest {
		return queryAll(t, scanEvent, selectEvents+c.where+`seq > `+c.arg(w.After)+` ORDER BY seq LIMIT `+c.arg(w.Limit), c.args...)
	}
	events, err := queryAll(t, scanEvent, selectEvents+c.where+`seq < `+c.arg(cmp.Or(w.Before, math.MaxInt64))+` ORDER BY seq DESC LIMIT `+c.arg(w.Limit), c.args...)
	slices.Reverse(events)
	return events, err
}

// checkComplete returns errEventsPending, which makes View repeat the view, if the view shows changes of the filter's agent or task
// whose events are not in the log yet.
func (t *baseTx) checkComplete(f fleet.EventFilter, c *clause) error {
	if !t.isView || t.lastTry || f.AgentUID == "" && f.TaskID == "" {
		return nil
	}
	pending, err := queryFirst(t, func(row scanner) (pending bool, err error) { return pending, row.Scan(&pending) }, inboxHasEventsWhere+c.where+`true)`, c.args...)
	if err == nil && pending {
		err = t.fail(errEventsPending)
	}
	return err
}

func (t *baseTx) ChangedAgents(after int64, others []string, worker string) (changed []fleet.ChangedAgent, last int64, err error) {
	scan := func(row scanner) (c fleet.ChangedAgent, err error) { return c, row.Scan(&c.UID, &c.LeasedElsewhere) }
	err = t.queryTogether(query{text: setKeyedSettings, eachRow: func(scanner) error { return nil }},
		query{text: selectLastSeq, eachRow: func(row scanner) error { return row.Scan(&last) }},
		query{text: selectChangedAgents, args: []any{after, worker, others}, eachRow: appendTo(&changed, scan)})
	return changed, last, t.fail(err)
}

func (t *tx) Append(e *fleet.Event) error {
	if t.err != nil {
		return t.err
	}
	if record.NeedsSpace(e) {
		if err := t.checkSpace(); err != nil {
			return err
		}
	}
	t.events = append(t.events, e)
	return nil
}

// eventArgs returns the arguments of insertEvents: one list for each column.
func eventArgs(events []*fleet.Event) []any {
	var texts [8][]string
	times, data := make([]time.Time, len(events)), make([][]byte, len(events))
	for i, e := range events {
		times[i], data[i] = e.Time, e.Data
		for j, text := range []string{string(e.Type), e.AgentUID, e.AgentName, record.NameKey(e.AgentName), e.Owner, e.TaskID, e.Status, e.Text} {
			texts[j] = append(texts[j], escape(text))
		}
	}
	args := []any{times}
	for _, column := range texts {
		args = append(args, column)
	}
	return append(args, data)
}

// eventConditions returns the filter as SQL. Apart from the selector, the SQL depends only on which fields are set. So a connection
// keeps few prepared statements.
func eventConditions(f fleet.EventFilter) *clause {
	c := &clause{}
	c.addVisible(f.Owner, f.SharedUIDs)
	c.addProjects(f.Projects)
	if f.AgentName != "" {
		c.add(`name_key = ?`, record.NameKey(f.AgentName))
	}
	if f.AgentUID != "" {
		c.add(`agent_uid = ?`, f.AgentUID)
	}
	if f.TaskID != "" {
		c.add(`task_id <> '' AND task_id = ?`, f.TaskID)
	}
	c.addSelector(f.Selector)
	if f.WithoutDetail {
		c.add(`type <> ?`, string(fleet.EventTaskDetail))
	}
	if f.WithoutOutput {
		c.add(`(type NOT IN (`+record.QuoteList(fleet.OutputEvents)+`) OR task_id <> '' AND task_id = ANY(?))`, f.OutputOf)
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
