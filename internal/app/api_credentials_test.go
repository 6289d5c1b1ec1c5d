package app

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"fleet/internal/fleet"
	"fleet/internal/service"
)

// openMethods are the methods that unknown callers may call.
var openMethods = []string{"check_health", "show_server"}

// TestCredentials calls every method on every face with credentials of every kind: none, credentials that are no
// longer valid, and tokens of each scope. The methods for admins, which refusal lists, need scope admin. Other methods without side
// effects need scope read, and all other methods need scope run.
func TestCredentials(t *testing.T) {
	t.Parallel()
	for _, face := range []string{"grpc", "rest", "mcp"} {
		t.Run(face, func(t *testing.T) {
			t.Parallel()
			f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{
				"read": {Scope: "read"}, "run": {Scope: "run"}, "restricted": {Projects: []string{"Setup"}}, "admin": {Scope: "admin"}, "revoked": {Scope: "admin", Revoked: true},
			}})
			f.secrets["expired"], f.secrets["rotated"] = f.createExpiredToken(t), f.createRotatedToken(t)
			for _, name := range slices.Sorted(maps.Keys(methods)) {
				m := methods[name]
				if !offers(face, m) || slices.Contains(openMethods, name) {
					continue
				}
				if face == "rest" && m.IsStreamingServer() {
					f.checkAttempt(t, "sse", name, "", "UNAUTHENTICATED")
				}
				for caller, want := range map[string]string{
					"": "UNAUTHENTICATED", "revoked": "UNAUTHENTICATED", "expired": "UNAUTHENTICATED", "rotated": "UNAUTHENTICATED",
					"read": refusal(m, fleet.ScopeRead), "run": refusal(m, fleet.ScopeRun), "restricted": refusalForRestricted(m),
				} {
					if name == "rotate_own_token" && want != "UNAUTHENTICATED" {
						continue // it would change the token of this test; testdata/api/access/rotate_own.yaml tests it
					}
					f.checkAttempt(t, face, name, caller, want)
				}
			}
			f.checkAttempt(t, face, "list_agents", "admin", "")
			tokens, err := f.service.ListTokens(t.Context())
			require.NoError(t, err)
			require.Len(t, tokens, 8, "no call may create or delete a token")
		})
	}
}

// missingTarget is a target whose objects do not exist.
var missingTarget = target{"nobody", missingID, missingID, missingID, missingID + "-1"}

const missingID = "3f0e7c52-1f2a-4a6e-8c1b-2d9a0b7c5e11"

// checkAttempt calls the method and requires that it fails with the reason want. If want is "", the credentials must be
// accepted, whatever the answer is.
func (f *testFleet) checkAttempt(t *testing.T, face, name, caller, want string) {
	t.Helper()
	r := f.call(t, face, name, caller, missingTarget.arguments(t, methods[name]))
	switch {
	case want != "":
		require.NotNil(t, r.err, "%s by %q", name, caller)
		require.Equal(t, want, r.err.Reason, "%s by %q: %s", name, caller, r.err)
		if want == "UNAUTHENTICATED" && r.header != nil {
			require.Equal(t, `Bearer realm="fleet"`, r.header.Get("WWW-Authenticate"), "%s by %q", name, caller)
		}
		if want == "PERMISSION_DENIED" {
			require.Regexp(t, "needs scope|of the projects Setup only", r.err.Message, "%s by %q", name, caller)
		}
	case r.err != nil:
		require.NotEqual(t, "UNAUTHENTICATED", r.err.Reason, "%s by %q: %s", name, caller, r.err)
		require.NotRegexp(t, "needs scope|of the projects Setup only", r.err.Message, "%s by %q", name, caller)
	}
}

// refusal returns the reason with which the method refuses a caller with the scope, or "" if the scope is sufficient.
func refusal(m protoreflect.MethodDescriptor, callerScope fleet.Scope) string {
	options, _ := m.Options().(*descriptorpb.MethodOptions)
	neededScope := fleet.ScopeRun
	switch {
	case m.Parent().Name() == "TokenService" || m.Name() == "ListAudit" || m.Name() == "ListPrincipals" || m.Name() == "ListReplicas" || m.Name() == "ForgetReplica" || m.Name() == "ReloadConfig" || m.Name() == "PauseFleet" || m.Name() == "PruneWork" || m.Name() == "SetBudget" || m.Name() == "DeleteBudget" || m.Name() == "ResumeFleet" || m.Name() == "ReleaseCredential":
		neededScope = fleet.ScopeAdmin
	case options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS:
		neededScope = fleet.ScopeRead
	}
	if callerScope < neededScope {
		return "PERMISSION_DENIED"
	}
	return ""
}

// refusalForRestricted is like refusal, for a caller with scope run who is restricted to a project. Such a caller may only call
// methods about objects in projects.
func refusalForRestricted(m protoreflect.MethodDescriptor) string {
	if in := m.Parent().Name(); in != "FleetService" && in != "TerminalService" {
		return "PERMISSION_DENIED"
	}
	return refusal(m, fleet.ScopeRun)
}

// createExpiredToken creates a token that expires at once, and returns its secret.
func (f *testFleet) createExpiredToken(t *testing.T) string {
	t.Helper()
	_, secret, _, err := f.service.CreateToken(t.Context(), service.CreateTokenRequest{Name: "expired", Kind: fleet.KindHuman, Scope: fleet.ScopeAdmin, TTL: time.Nanosecond})
	require.NoError(t, err)
	return secret
}

// createRotatedToken creates a token, replaces its secret, and returns the old secret.
func (f *testFleet) createRotatedToken(t *testing.T) string {
	t.Helper()
	_, secret, _, err := f.service.CreateToken(t.Context(), service.CreateTokenRequest{Name: "rotated", Kind: fleet.KindHuman, Scope: fleet.ScopeAdmin})
	require.NoError(t, err)
	_, _, _, err = f.service.RotateToken(t.Context(), "rotated", 0, 0)
	require.NoError(t, err)
	return secret
}
