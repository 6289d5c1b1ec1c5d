package chaos

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/runner/remote"
)

// sharedPlace is a place that all servers use. The agents of the place are in the process of the test, so they survive the
// servers. Servers call its runners like those of workspaces, and its other methods by name.
type sharedPlace struct {
	http   *http.Client
	client *remote.Client
}

var sharedTraits = fleet.Traits{Name: "shared", PollInterval: 500 * time.Millisecond, SupportsChanges: os.Getenv(sharedLandsEnv) != ""}

// sharedKey is the key of the runners of the place.
var sharedKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

// serveShared serves a fake place at the socket path, and returns the fake place.
func serveShared(t *testing.T, path string) *fake.Place {
	place := fake.New(fake.Config{Traits: sharedTraits})
	runners, err := remote.NewServer(place, remote.ServerConfig{Key: sharedKey.Public().(ed25519.PublicKey)}) //nolint:forcetypeassert // of an Ed25519 key
	require.NoError(t, err)
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	serveFakePlace(t, l, place, runners.Handler())
	return place
}

// serveFakePlace serves the fake place and its runners.
func serveFakePlace(t *testing.T, l net.Listener, place *fake.Place, runners http.Handler) {
	mux := http.NewServeMux()
	mux.Handle("/", runners)
	mux.HandleFunc("POST /place/{method}", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(callMethod(place, r)) // the server may have been killed
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); place.Destroy() })
}

// placeAnswer is the JSON form of what a method of the place returns.
type placeAnswer struct {
	Result  any
	Failed  bool
	Reason  fleet.Reason
	Message string
}

// callMethod calls the method of the place that the request names. Its argument is the body of the request.
func callMethod(p fleet.Place, r *http.Request) (a placeAnswer) {
	method := reflect.ValueOf(p).MethodByName(r.PathValue("method"))
	args := []reflect.Value{reflect.ValueOf(context.WithoutCancel(r.Context()))} // the place finishes a call of a killed server
	if method.Type().NumIn() > 1 {
		arg := reflect.New(method.Type().In(1))
		if err := json.NewDecoder(r.Body).Decode(arg.Interface()); err != nil {
			panic(err)
		}
		args = append(args, arg.Elem())
	}
	results := method.Call(args)
	if len(results) > 1 {
		a.Result = results[0].Interface()
	}
	if err, _ := results[len(results)-1].Interface().(error); err != nil {
		a.Failed, a.Reason, a.Message = true, fleet.ReasonOf(err), err.Error()
	}
	return a
}

// dialShared returns the place that serveShared serves at the path.
func dialShared(path string) *sharedPlace {
	h := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	return &sharedPlace{h, remote.NewClient(remote.ClientConfig{URL: "http://shared", Key: sharedKey, HTTP: h})}
}

// callPlace calls the method of the place with the argument. If the place cannot be reached, the reason of the error is
// BACKEND_UNAVAILABLE.
func callPlace[T any](ctx context.Context, s *sharedPlace, method string, arg any) (result T, err error) {
	body, err := json.Marshal(arg)
	if err != nil {
		return result, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://shared/place/"+method, bytes.NewReader(body))
	if err != nil {
		return result, err
	}
	resp, err := s.http.Do(r)
	if err == nil {
		defer func() { _ = resp.Body.Close() }()
		a := placeAnswer{Result: &result}
		if err = json.NewDecoder(resp.Body).Decode(&a); err == nil && a.Failed {
			return result, fleet.Errorf(a.Reason, "%s", a.Message)
		}
	}
	switch {
	case ctx.Err() != nil:
		return result, ctx.Err()
	case err != nil:
		return result, fleet.Errorf(fleet.ReasonBackendUnavailable, "shared: %v", err)
	}
	return result, nil
}

func (s *sharedPlace) Traits() fleet.Traits { return sharedTraits }

func (s *sharedPlace) Projects(ctx context.Context) ([]fleet.Project, error) {
	return callPlace[[]fleet.Project](ctx, s, "Projects", nil)
}

func (s *sharedPlace) Roles(ctx context.Context, project string) ([]fleet.Role, error) {
	return callPlace[[]fleet.Role](ctx, s, "Roles", project)
}

func (s *sharedPlace) Provision(ctx context.Context, a fleet.Agent) (fleet.Workspace, error) {
	return callPlace[fleet.Workspace](ctx, s, "Provision", a)
}

func (s *sharedPlace) Start(ctx context.Context, a fleet.Agent) error {
	_, err := callPlace[any](ctx, s, "Start", a)
	return err
}

func (s *sharedPlace) Stop(ctx context.Context, a fleet.Agent) error {
	_, err := callPlace[any](ctx, s, "Stop", a)
	return err
}

func (s *sharedPlace) Delete(ctx context.Context, a fleet.Agent) (string, error) {
	return callPlace[string](ctx, s, "Delete", a)
}

func (s *sharedPlace) Inspect(ctx context.Context, a fleet.Agent) (fleet.Workspace, error) {
	return callPlace[fleet.Workspace](ctx, s, "Inspect", a)
}

func (s *sharedPlace) List(ctx context.Context) ([]fleet.Workspace, error) {
	return callPlace[[]fleet.Workspace](ctx, s, "List", nil)
}

func (s *sharedPlace) Log(context.Context, fleet.Agent, int) ([]string, bool, error) {
	return nil, false, nil
}

func (s *sharedPlace) Connect(a fleet.Agent) fleet.Runner { return s.client.Connect(a) }

func (s *sharedPlace) Close() error { return nil }
