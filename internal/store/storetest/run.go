// Package storetest is the test suite for implementations of fleet.Store. It checks the contract in the comments of
// fleet.Store and of its transactions. It may import the core, but must not import a store.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// Reopener is an optional interface of a store. If a store does not implement it, the tests that need it are skipped.
type Reopener interface {
	// Reopen opens the store's data again, as another process would. The store may be open or closed. If only one process can
	// use the data, and the store is open, Reopen returns the store itself.
	Reopen(t *testing.T) fleet.Store
}

// Run runs the suite. open must return a new empty store each time, and close it at the end of the test.
func Run(t *testing.T, open func(t *testing.T) fleet.Store) {
	for _, group := range []struct {
		name  string
		cases []testCase
	}{
		{"Update", updateCases},
		{"Agents", agentCases},
		{"Views", viewCases},
		{"Tasks", taskCases},
		{"FindTasks", findTasksCases},
		{"Usage", usageCases},
		{"Holdings", holdingCases},
		{"Messages", messageCases},
		{"Questions", questionCases},
		{"Payloads", payloadCases},
		{"Events", eventCases},
		{"Subscribe", subscribeCases},
		{"Requests", requestCases},
		{"Sessions", sessionCases},
		{"Tools", toolCases},
		{"Resources", resourceCases},
		{"Ledger", ledgerCases},
		{"Landings", landingCases},
		{"Deliveries", deliveryCases},
		{"Tokens", tokenCases},
		{"Identities", identityCases},
		{"Projects", projectCases},
		{"Leases", leaseCases},
		{"Replicas", replicaCases},
		{"Audit", auditCases},
		{"Prune", pruneCases},
		{"Notes", noteCases},
		{"Secrets", secretCases},
		{"Size", sizeCases},
		{"Processes", processCases},
		{"Concurrent", concurrentCases},
		{"Model", modelCases},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range group.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(t, open(t))
				})
			}
		})
	}
}

type testCase struct {
	name string
	run  func(t *testing.T, s fleet.Store)
}

// tb is the part of testing.TB that the helpers need. *rapid.T has it, too.
type tb interface {
	require.TestingT
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Context() context.Context
}

var (
	errTest = errors.New("error of the test")

	// noon is the time that tests use. It is not a whole second: it has microseconds, which every store must keep.
	noon = time.Date(2025, 10, 29, 12, 0, 0, 123456000, time.UTC)
)

// newAgent returns an agent with a value in almost every field. It is not deleted.
func newAgent(uid, name, owner string) *fleet.Agent {
	return &fleet.Agent{
		UID: uid, Name: name, Owner: owner, Project: "Setup", Role: "coder", Spec: "do good\nwork", WorkspaceID: "ws-" + uid,
		Location: "/work/" + name, Metadata: map[string]string{"pr": "https://example.com/1", "empty": ""},
		Parameters: map[string]string{"region": "eu"}, Next: fleet.NextStart{Role: true, Update: true},
		Host: fleet.HostFacts{
			Links: []fleet.Link{{Name: "Workspace", URL: "https://coder.example.com/@alice/papi"}}, Outdated: true,
			StopsAt: noon.Add(time.Hour), DormantAt: noon, DeletionAt: noon.Add(2 * time.Hour), MissingSince: noon,
		},
		Shares:  []fleet.Share{{Grantee: fleet.Grantee{Group: "ops"}, Access: fleet.AccessRun, By: owner, At: noon}},
		Labels:  fleet.Labels{"env": "prod", "größe/1": "ü:@+"},
		Rules:   []fleet.AllowedRule{{Rule: "Bash(go test *)", By: owner, At: noon}, {Rule: "Write(日本*)", TaskID: "t1", By: owner, At: noon}},
		Toolset: fleet.ToolsetSubagents, Place: "local", OneTask: true, HasConversation: true, SessionID: "c0ffee", Conversation: "t7",
		Config: &fleet.AgentConfig{
			Driver: "claude", SystemPrompt: "Be good.", Allow: []string{}, Reports: true,
			MCPServers: []fleet.MCPServer{{Name: "search", Command: "npx", Env: map[string]string{"KEY": "${KEY}"}}},
		},
		State: fleet.StateRunning, StateReason: "it was started", Desired: fleet.DesiredRunning, RestartsRequested: 2, RestartsDone: 1,
		Attempts: 3, RetryAt: noon.Add(time.Minute), CreatedAt: noon, UpdatedAt: noon.Add(time.Second),
		RefusalReason: fleet.ReasonInvalidArgument, RefusalField: "spec", Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
}

// newTask returns a running task of the agent.
func newTask(id string, a *fleet.Agent) *fleet.Task {
	return &fleet.Task{
		ID: id, AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner, Description: "build it", Source: fleet.SourceHuman,
		Status: fleet.TaskRunning, CreatedAt: noon,
	}
}

// newEvent returns an event about the agent.
func newEvent(typ fleet.EventType, a *fleet.Agent, text string) *fleet.Event {
	return &fleet.Event{Time: noon, Type: typ, AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner, Text: text}
}

// update runs fn in an Update and fails the test on an error.
func update(t tb, s fleet.Store, fn func(tx fleet.Tx) error) {
	t.Helper()
	require.NoError(t, s.Update(t.Context(), fn))
}

// writeRows calls write with each of the rows in one transaction.
func writeRows(t tb, s fleet.Store, write func(fleet.Tx, fleet.Row) error, rows ...fleet.Row) error {
	return s.Update(t.Context(), func(tx fleet.Tx) error {
		for _, r := range rows {
			if err := write(tx, r); err != nil {
				return err
			}
		}
		return nil
	})
}

func tryInsert(t tb, s fleet.Store, r fleet.Row) error { return writeRows(t, s, fleet.Tx.Insert, r) }

func tryUpdate(t tb, s fleet.Store, r fleet.Row) error { return writeRows(t, s, fleet.Tx.Update, r) }

func insertRows(t tb, s fleet.Store, rows ...fleet.Row) {
	t.Helper()
	require.NoError(t, writeRows(t, s, fleet.Tx.Insert, rows...))
}

func updateRows(t tb, s fleet.Store, rows ...fleet.Row) {
	t.Helper()
	require.NoError(t, writeRows(t, s, fleet.Tx.Update, rows...))
}

// view runs fn in a View and fails the test on an error.
func view(t tb, s fleet.Store, fn func(tx fleet.ReadTx) error) {
	t.Helper()
	require.NoError(t, s.View(t.Context(), fn))
}

// read runs get in a View and returns its result.
func read[T any](t tb, s fleet.Store, get func(tx fleet.ReadTx) (T, error)) T {
	t.Helper()
	var got T
	view(t, s, func(tx fleet.ReadTx) (err error) {
		got, err = get(tx)
		return err
	})
	return got
}

// addAgent adds the agent "papi" of alice.
func addAgent(t tb, s fleet.Store) *fleet.Agent {
	t.Helper()
	a := newAgent("uid-papi", "papi", "alice")
	insertRows(t, s, a)
	return a
}

// requireReason requires that err is a *fleet.Error with the reason, and that its public message contains text.
func requireReason(t tb, err error, reason fleet.Reason, text string) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, reason, fleet.ReasonOf(err), "%v", err)
	require.Contains(t, fleet.PublicMessage(err), text)
}

// requireReasons requires that there are n errors, and calls requireReason with each.
func requireReasons(t tb, errs []error, n int, reason fleet.Reason, text string) {
	t.Helper()
	require.Len(t, errs, n)
	for _, err := range errs {
		requireReason(t, err, reason, text)
	}
}

// requireTestErrors requires that there are n errors, and that each is errTest.
func requireTestErrors(t tb, errs []error, n int) {
	t.Helper()
	require.Len(t, errs, n)
	for _, err := range errs {
		require.ErrorIs(t, err, errTest)
	}
}

// requireInternal requires that err is an internal error. A store returns it for a bug of its caller.
func requireInternal(t tb, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, fleet.ReasonInternal, fleet.ReasonOf(err), "%v", err)
}

// runConcurrently calls f concurrently with the numbers from 0 to n-1. It returns the errors that are not nil, in any order.
func runConcurrently(n int, f func(i int) error) []error {
	results := make(chan error, n)
	start := make(chan struct{})
	for i := range n {
		go func() {
			<-start
			results <- f(i)
		}()
	}
	close(start)
	var errs []error
	for range n {
		if err := <-results; err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// id returns a unique id from a prefix and a number.
func id(prefix string, i int) string { return fmt.Sprintf("%s-%04d", prefix, i) }
