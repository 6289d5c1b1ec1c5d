package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
	"fleet/internal/store/sqlite"
)

// stock is the content of a large store: idle agents, and tasks of the last 100 days that have ended.
type stock struct {
	agents, tasks int
	now           time.Time
	words         []string
	random        *rand.Rand // gives the same stock in every run
}

const (
	stockOwners   = 100
	stockProjects = 20
	stockDays     = 100
)

func newStock(agents, tasks int) *stock {
	s := &stock{agents: agents, tasks: tasks, now: time.Now().UTC().Truncate(time.Second), random: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // not for secrets
	for range 5000 {
		var b strings.Builder
		for range 2 + s.random.IntN(3) {
			b.WriteByte("bcdfgklmnprstvz"[s.random.IntN(15)])
			b.WriteByte("aeiou"[s.random.IntN(5)])
		}
		s.words = append(s.words, b.String())
	}
	return s
}

// text returns n random words. The first words of the stock are frequent, the last ones are rare.
func (s *stock) text(n int) string {
	words := make([]string, n)
	for i := range words {
		f := s.random.Float64()
		words[i] = s.words[int(f*f*f*float64(len(s.words)))]
	}
	return strings.Join(words, " ")
}

func stockUID(i int) string     { return fmt.Sprintf("10000000-0000-4000-8000-%012d", i) }
func stockName(i int) string    { return fmt.Sprintf("agent-%06d", i) }
func stockOwner(i int) string   { return fmt.Sprintf("owner-%02d", i%stockOwners) }
func stockProject(i int) string { return fmt.Sprintf("project-%02d", i%stockProjects) }

func (s *stock) agent(i int) *fleet.Agent {
	at := s.now.Add(-stockDays * 24 * time.Hour)
	return &fleet.Agent{
		UID: stockUID(i), Name: stockName(i), Owner: stockOwner(i), Place: "fake", Project: stockProject(i),
		Role: []string{"coder", "operator", "manager"}[i%3], Spec: "Keep the build of the payment service green.", WorkspaceID: "workspace-" + stockName(i),
		Location: "fake:" + stockName(i), State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: at, UpdatedAt: at,
	}
}

func (s *stock) task(i int) *fleet.Task {
	agent := i % s.agents
	at := s.now.Add(-time.Duration(s.tasks-i) * (stockDays * 24 * time.Hour / time.Duration(s.tasks)))
	t := &fleet.Task{
		ID: fmt.Sprintf("%08x-0000-4000-8000-%012d", s.random.Uint32(), i), AgentUID: stockUID(agent), AgentName: stockName(agent), Owner: stockOwner(agent),
		Source: fleet.SourceHuman, Status: fleet.TaskCompleted, Description: s.text(10), Summary: s.text(8), CreatedAt: at, StartedAt: at, EndedAt: at.Add(time.Minute),
		CostUSD: float64(s.random.IntN(100)) / 100, Turns: 3, Usage: fleet.Usage{Model: "stub", InputTokens: 1000, OutputTokens: 100, ToolCalls: 5},
	}
	switch s.random.IntN(50) {
	case 0:
		t.Status, t.Reason = fleet.TaskFailed, "the agent gave no reason"
	case 1:
		t.Status, t.Reason = fleet.TaskStopped, "somebody stopped it"
	}
	return t
}

// fill creates a SQLite store with the stock. It creates indexes and triggers after the rows, which is several times
// faster.
func (s *stock) fill(ctx context.Context, path string) (err error) {
	store, err := sqlite.Open(ctx, path, sqlite.Config{}) // creates the schema
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(off)&_pragma=synchronous(off)&_pragma=cache_size(-200000)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	return caught(func() {
		tx := must(db.BeginTx(ctx, nil))
		var derived []string
		rows := must(tx.QueryContext(ctx, `SELECT type, name, sql FROM sqlite_master WHERE tbl_name IN ('agents', 'tasks') AND type IN ('index', 'trigger') AND sql IS NOT NULL`))
		var drop []string
		for rows.Next() {
			var kind, name, text string
			check(rows.Scan(&kind, &name, &text))
			drop, derived = append(drop, `DROP `+kind+` `+name), append(derived, text)
		}
		check(errors.Join(rows.Err(), rows.Close()))
		for _, q := range drop {
			must(tx.ExecContext(ctx, q))
		}
		agents := must(tx.PrepareContext(ctx, `INSERT INTO agents (`+record.AgentColumns+`, uid, revision) VALUES (`+record.Marks(record.AgentColumns)+`, ?, 1)`))
		for i := range s.agents {
			a := s.agent(i)
			must(agents.ExecContext(ctx, append(micros(must(record.AgentArgs(a))), a.UID)...))
		}
		columns := record.TaskColumns + `, id, name_key, project, toolset, revision`
		tasks := must(tx.PrepareContext(ctx, `INSERT INTO tasks (`+columns+`) VALUES (`+record.Marks(columns)+`)`))
		for i := range s.tasks {
			t := s.task(i)
			must(tasks.ExecContext(ctx, append(micros(record.TaskArgs(t)), t.ID, t.AgentName, stockProject(i%s.agents), "", 1)...))
		}
		for _, q := range append(derived,
			`INSERT INTO tasks_text (rowid, description, summary) SELECT n, description, summary FROM tasks`,
			`INSERT INTO stored (owner, bytes) SELECT owner, sum(octet_length(description) + octet_length(summary)) FROM tasks GROUP BY owner`,
			`INSERT INTO task_times SELECT n / 1000, max(created_at) FROM tasks GROUP BY n / 1000`,
			`INSERT INTO usage_days SELECT day, owner, project, sum(tasks), sum(completed), sum(failed), sum(stopped), sum(cost), sum(input_tokens),
				sum(output_tokens), sum(tool_calls), sum(took) FROM task_usage GROUP BY day, owner, project`) {
			must(tx.ExecContext(ctx, q))
		}
		check(tx.Commit())
	})
}

// micros replaces times by microseconds since 1970, as SQLite stores them.
func micros(args []any) []any {
	for i, arg := range args {
		if at, ok := arg.(time.Time); ok {
			args[i] = at.UnixMicro()
		}
	}
	return args
}
