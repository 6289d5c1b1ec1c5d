package app

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/state"
	"fleet/internal/store/postgres/pgtest"
)

// newTestReplicas returns two servers that share a Postgres database and accept the same tokens.
func newTestReplicas(t *testing.T, c fleetConfig) (one, two *testFleet) {
	t.Helper()
	url := pgtest.URL(t)
	c.Config = func(cfg *Config) { cfg.Store, cfg.Auth = url, Auth{AuthTokens} }
	one = newTestFleet(t, c)
	c.Tokens = nil // the database has them
	two = newTestFleet(t, c)
	two.secrets = one.secrets
	return one, two
}

// TestReplicas makes a server lose its database while a task runs in a place that another server reaches too. The other
// server must take over the task, and must not dispatch it again. A client that follows the task from a cursor of the
// first server must get all events.
func TestReplicas(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	configWith := func(places ...fleet.Place) fleetConfig {
		return fleetConfig{Config: func(c *Config) { c.Store = url }, Options: func(o *Options) {
			core := o.Core
			o.Core = func(c *state.Config) { core(c); c.LeaseTTL = time.Second }
			if len(places) > 0 {
				o.Places = places
			}
		}}
	}
	one := newTestFleet(t, configWith())
	first := fleetv1.NewFleetServiceClient(one.conn)
	_, err := first.CreateAgent(t.Context(), &fleetv1.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "x"})
	require.NoError(t, err)
	started, err := first.StartAgentTask(t.Context(), &fleetv1.StartAgentTaskRequest{AgentName: "papi", TaskDescription: "echo one\nwait gate\necho two\ndone"})
	require.NoError(t, err)
	task := started.GetTask().GetId()
	var text, cursor string
	follow := func(c fleetv1.FleetServiceClient, until func() bool) {
		watch := func() fleetv1.FleetService_WatchFleetClient {
			stream, err := c.WatchFleet(t.Context(), &fleetv1.WatchFleetRequest{TaskId: task, Cursor: cursor, Follow: true, WaitSeconds: new(int32(50))})
			require.NoError(t, err)
			return stream
		}
		stream := watch()
		for !until() {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) { // after WaitSeconds
				stream = watch()
				continue
			}
			require.NoError(t, err)
			cursor = m.GetCursor()
			for _, e := range m.GetEvents() {
				if e.GetType() == fleetv1.Event_task_output {
					text += e.GetText()
				}
			}
		}
	}
	follow(first, func() bool { return text == "one" })
	<-one.place.Reached("gate")

	two := newTestFleet(t, configWith(one.place))
	second := fleetv1.NewFleetServiceClient(two.conn)
	require.NoError(t, one.store.Close(), "without the store, the server can neither renew nor release its leases")
	one.place.Release("gate")
	follow(second, func() bool { return text == "onetwo" })
	waited, err := second.WaitTasks(t.Context(), &fleetv1.WaitTasksRequest{TaskIds: []string{task}})
	require.NoError(t, err)
	require.Equal(t, fleetv1.Task_completed, waited.GetTasks()[0].GetStatus(), waited.GetTasks()[0].GetReason())
	require.Equal(t, 1, one.place.RunCount(task))
	require.Equal(t, "onetwo", text)
}
