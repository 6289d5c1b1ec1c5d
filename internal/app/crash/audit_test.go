package crash

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/notify"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/waittest"
)

// TestAuditOfKilledServer kills the only server in the middle of calls.
func TestAuditOfKilledServer(t *testing.T) {
	t.Parallel()
	requireAudited(t, supervise(t, ""))
}

// TestAuditOfReplicas kills one of two servers with one database in the middle of calls.
func TestAuditOfReplicas(t *testing.T) {
	t.Parallel()
	store := pgtest.URL(t)
	requireAudited(t, superviseOn(t, "", store), superviseOn(t, "", store))
}

// requireAudited creates and deletes agents through the servers while the first server is killed. Each call whose caller received
// a success must have exactly one line in the audit log. Each other call must have at most one line. Deletions that found no agent
// are not checked.
func requireAudited(t *testing.T, servers ...*supervisor) {
	t.Helper()
	const callers, kills, rounds = 3, 2, 3 // each caller makes that many rounds of calls after the last kill
	ctx := waittest.Context(t)
	var mu sync.Mutex
	acknowledged := map[string]bool{} // by request id; false if the caller received no answer
	var acks atomic.Int64
	var acknowledgements notify.Subscribers
	signal, cancel := acknowledgements.Subscribe()
	defer cancel()
	killsDone := make(chan struct{}) // closed after the last kill
	var callersDone sync.WaitGroup
	for i := range callers {
		callersDone.Go(func() {
			for n, roundsAfterKills := 0, 0; roundsAfterKills < rounds; n++ {
				select {
				case <-killsDone:
					roundsAfterKills++
				default:
				}
				s, name := servers[(i+n)%len(servers)], fmt.Sprintf("papi-%d-%d", i, n)
				record := func(id string, err error) {
					if status.Code(err) == codes.NotFound { // the agent to be deleted was not created
						return
					}
					mu.Lock()
					acknowledged[id] = err == nil
					mu.Unlock()
					if err == nil {
						acks.Add(1)
						acknowledgements.Notify()
					}
				}
				create := &fleetv1.CreateAgentRequest{Name: name, Project: "shell", Spec: "x", RequestId: "create " + name}
				_, err := s.client().CreateAgent(ctx, create, grpc.WaitForReady(true))
				record(create.GetRequestId(), err)
				remove := &fleetv1.DeleteAgentRequest{AgentName: name, RequestId: "delete " + name}
				_, err = s.client().DeleteAgent(ctx, remove, grpc.WaitForReady(true))
				record(remove.GetRequestId(), err)
			}
		})
	}
	for kill := range kills {
		waittest.UntilSignalled(t, signal, func() bool { return acks.Load() >= int64((kill+1)*callers) })
		call(servers[0], fleetv1.FleetServiceClient.ListAgents, &fleetv1.ListAgentsRequest{}) // waits until the server works again
		servers[0].kill()
	}
	close(killsDone)
	callersDone.Wait()

	lines := map[string]int{}
	client := servers[len(servers)-1].client()
	for r := (&fleetv1.ListAuditRequest{}); ; {
		page, err := client.ListAudit(context.WithoutCancel(ctx), r, grpc.WaitForReady(true))
		require.NoError(t, err)
		for _, e := range page.GetEntries() {
			lines[e.GetRequestId()]++
		}
		if r.Cursor = page.GetNextCursor(); r.GetCursor() == "" {
			break
		}
	}
	acknowledgedCalls := 0
	for id, ok := range acknowledged {
		if ok {
			acknowledgedCalls++
			require.Equal(t, 1, lines[id], "%s was acknowledged, so the audit log must have one line for it", id)
		}
		require.LessOrEqual(t, lines[id], 1, id)
	}
	require.GreaterOrEqual(t, acknowledgedCalls, kills*callers)
}
