package cli

import (
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/protected"
	"fleet/internal/identity/oidc/oidctest"
)

// TestLoginEnds checks that Ctrl-C and --timeout end a sign-in with their own exit codes.
func TestLoginEnds(t *testing.T) {
	t.Parallel()
	issuer := oidctest.New(t, oidctest.User{Subject: "1", Name: "alice"})
	web := httptest.NewServer(&protected.Resource{Issuer: issuer.URL, CLIClientID: oidctest.CLIClientID, Scopes: []string{"openid"}})
	t.Cleanup(web.Close)
	s := newStub(t)
	s.handlers = map[string]func(proto.Message, grpc.ServerStream) error{
		"ShowServer": answerWith(&fleetv1.ShowServerResponse{Url: web.URL}, nil),
	}
	server, _ := s.listen(t, "")
	c := newCommand(server)
	code := c.start("login", "--device")
	c.stderr.await(t, "and enter the code ")
	c.signals <- os.Interrupt
	require.Equal(t, ExitInterrupted, waitForExit(t, code), c.stderr.String())

	_, stderr, timeoutCode := runFleet(server, "login", "--device", "--timeout", "1ms")
	require.Equal(t, ExitTimeout, timeoutCode, stderr)
}
