package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
)

// BenchmarkFairness measures the calls of a light principal, alone and beside a heavy principal. The light principal
// makes one call at a time. The many clients of the heavy principal call as fast as they can. Both list their agents. With
// the default of calls_per_cpu, principals take turns at the server. With calls_per_cpu=0, the server works on all calls at once.
func BenchmarkFairness(b *testing.B) {
	agents, clients := fullOrSmall(100, 3), fullOrSmall(64, 4)
	for _, callsPerCPU := range []int{app.DefaultConfig().Limits.CallsPerCPU, 0} {
		b.Run(fmt.Sprintf("calls_per_cpu=%d", callsPerCPU), func(b *testing.B) {
			t := newFleet(b, "", 2*agents, "light", "heavy")
			withoutAuth := t.serve(b, nil)
			lightCtx, heavyCtx := withoutAuth.authContext(b, "light"), withoutAuth.authContext(b, "heavy")
			withoutAuth.stop()
			s := t.serve(b, func(c *app.Config) { c.Auth, c.Limits.CallsPerCPU = app.Auth{app.AuthTokens}, callsPerCPU })
			light := repeat(1, listCall(lightCtx, s.conn, agents))
			heavy := repeat(clients, listCall(heavyCtx, dial(b, s.GRPCAddr()), agents))
			alone := row{name: "alone", measure: light}
			compare(b, time.Second/2, alone)
			compare(b, time.Second/2, row{name: "beside-heavy", measure: func(b *testing.B, d time.Duration) ([]float64, float64) {
				var load sync.WaitGroup
				load.Go(func() { heavy(b, d) })
				defer load.Wait()
				return light(b, d)
			}}, peer{row: alone})
		})
	}
}

// authContext creates a token for the principal and returns a context for its calls. It works on a server without auth.
func (s *server) authContext(b *testing.B, principal string) context.Context {
	token, err := fleetv1.NewTokenServiceClient(s.conn).CreateToken(b.Context(), &fleetv1.CreateTokenRequest{Name: principal, Scope: fleetv1.Scope_run})
	require.NoError(b, err)
	return metadata.AppendToOutgoingContext(b.Context(), "authorization", "Bearer "+token.GetSecret())
}
