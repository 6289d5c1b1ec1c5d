package coder_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/dnaeon/go-vcr.v3/cassette"
	"gopkg.in/dnaeon/go-vcr.v3/recorder"

	"fleet/internal/fleet"
	"fleet/internal/place/coder"
)

// record makes TestCassettes record the cassettes from a test bed (testdata/coder-testbed) whose environment is set (`eval
// "$(env.sh bob)"`). TestCassettes then creates and deletes the user's workspaces agent-cas-.... Without record, it replays
// the cassettes.
var record = flag.Bool("record", false, "record the cassettes from a real Coder deployment")

const (
	cassettes           = "../../../testdata/cassettes"
	testbed             = "../../../testdata/coder-testbed"
	recordedURL         = "http://coder.test"
	recordedStreamLimit = time.Second // limits a runner's streams, because a recorder reads bodies to their end
)

// recordedPlace is a place whose requests are recorded or replayed.
type recordedPlace struct {
	*testing.T
	*require.Assertions
	ctx   context.Context
	place *coder.Place
	live  fleet.Place // a place on the same deployment that is not recorded; nil in a replay

	config coder.Config // of place
	clock  *replayClock
}

// newRecordedPlace returns a place that uses the cassette with the name of the subtest. change can change its configuration; it may
// be nil.
func newRecordedPlace(t *testing.T, change func(*coder.Config)) *recordedPlace {
	x := &recordedPlace{T: t, Assertions: require.New(t), ctx: t.Context()}
	name := t.Name()[strings.Index(t.Name(), "/")+1:]
	o := &recorder.Options{
		CassetteName: filepath.Join(cassettes, name), Mode: recorder.ModeReplayOnly, SkipRequestLatency: true,
	}
	config := coder.Config{
		URL: recordedURL, Token: func(context.Context) (string, error) { return "a-token", nil },
		RunnerKey: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), // the same key in each recording
	}
	clock := &replayClock{}
	x.clock = clock
	config.Now = clock.now
	if *record {
		o.Mode, o.RealTransport = recorder.ModeRecordOnly, firstEvents{http.DefaultTransport}
		config.URL, config.Token, config.Now = os.Getenv("CODER_URL"), coder.FindToken(os.Getenv, "", ""), nil
		live, err := coder.New(config)
		x.NoError(err)
		x.live = live
		t.Cleanup(func() {
			x.NoError(live.Close())
			http.DefaultClient.CloseIdleConnections()
		})
	}
	r, err := recorder.NewWithOptions(o)
	x.NoError(err, "if the cassette is missing, record it with -record")
	r.SetMatcher(matches)
	r.AddHook(scrub, recorder.BeforeSaveHook)
	var replayed atomic.Int64
	r.AddHook(func(*cassette.Interaction) error {
		replayed.Add(1)
		return nil
	}, recorder.BeforeResponseReplayHook)
	config.Transport = noStream{clock.observe(r)}
	if !*record {
		config.Transport = noStream{clock.observe(recordedOnly{r})}
	}
	if change != nil {
		change(&config)
	}
	x.config = config
	x.place, err = coder.New(config)
	x.NoError(err)
	x.place.SetStreamLimit(recordedStreamLimit)
	if !*record {
		x.place.SetWait(func(ctx context.Context, d time.Duration) error {
			if d >= time.Minute { // the deadline of the workspace is checked again only after minutes
				<-ctx.Done()
			}
			return ctx.Err()
		})
	}
	t.Cleanup(func() {
		x.NoError(x.place.Close())
		x.NoError(r.Stop())
		if c, err := cassette.Load(o.CassetteName); !*record && !t.Failed() {
			x.NoError(err)
			x.Len(c.Interactions, int(replayed.Load()), "the cassette has requests that are no longer sent: remove them")
		}
	})
	return x
}

// agent returns an agent of the test. If the test records, it deletes the agent's workspace at the end.
func (x *recordedPlace) agent(suffix string) fleet.Agent { return x.agentOf("Setup", suffix) }

// agentOf is like agent, for an agent of the project.
func (x *recordedPlace) agentOf(project, suffix string) fleet.Agent {
	name := "cas-" + suffix
	a := fleet.Agent{UID: "uid-of-" + name, Name: name, Owner: "local", Project: project, Role: "coder", Spec: "Do as the tests say."}
	if *record {
		x.Cleanup(func() {
			_, err := x.live.Delete(context.Background(), a)
			x.NoError(err)
		})
	}
	return a
}

// readyAgent returns a running agent of the project Setup.
func (x *recordedPlace) readyAgent(suffix string) fleet.Agent { return x.readyAgentIn("Setup", suffix) }

// readyAgentIn returns a running agent of the project.
func (x *recordedPlace) readyAgentIn(project, suffix string) fleet.Agent {
	a := x.agentOf(project, suffix)
	x.ifRecording(func() {
		_, err := x.live.Provision(x.ctx, a)
		x.NoError(err)
		x.awaitLive(a, fleet.StateRunning)
	})
	return a
}

// ifRecording runs the function only if the test records. The requests of the function are not recorded.
func (x *recordedPlace) ifRecording(do func()) {
	if *record {
		do()
	}
}

// awaitLive waits until the agent is in the state. Its inspections are not recorded.
func (x *recordedPlace) awaitLive(a fleet.Agent, want fleet.State) {
	for range 600 {
		w, err := x.live.Inspect(x.ctx, a)
		x.NoError(err)
		if w.State == want {
			return
		}
		time.Sleep(200 * time.Millisecond) // recording only: Coder sends no signal
	}
	x.FailNow("stuck", "agent %s is not %s", a.Name, want)
}

func (x *recordedPlace) projects() []fleet.Project {
	x.Helper()
	all, err := x.place.Projects(x.ctx)
	x.NoError(err)
	return all
}

func (x *recordedPlace) provision(a fleet.Agent) fleet.Workspace {
	x.Helper()
	w, err := x.place.Provision(x.ctx, a)
	x.NoError(err)
	return w
}

func (x *recordedPlace) list() []fleet.Workspace {
	x.Helper()
	all, err := x.place.List(x.ctx)
	x.NoError(err)
	return all
}

func (x *recordedPlace) inspect(a fleet.Agent) fleet.Workspace {
	x.Helper()
	w, err := x.place.Inspect(x.ctx, a)
	x.NoError(err)
	return w
}

func (x *recordedPlace) delete(a fleet.Agent) {
	x.Helper()
	_, err := x.place.Delete(x.ctx, a)
	x.NoError(err)
}

// await inspects the agent until it is in the state. Each inspection is recorded.
func (x *recordedPlace) await(a fleet.Agent, want fleet.State) fleet.Workspace {
	for range 120 {
		w := x.inspect(a)
		if w.State == want {
			return w
		}
		x.True(w.State.Moving(), "%s: %s", w.State, w.Reason)
		x.ifRecording(func() { time.Sleep(time.Second) })
		x.clock.advance(time.Second)
	}
	x.FailNow("stuck")
	return fleet.Workspace{}
}

// runScript runs a script of the test bed.
func (x *recordedPlace) runScript(name string, args ...string) {
	out, err := exec.CommandContext(x.ctx, filepath.Join(testbed, name), args...).CombinedOutput()
	x.NoError(err, "%s", out)
}

// request sends a request to Coder, which is not recorded, and returns the body of the response.
func (x *recordedPlace) request(method, path, body string) string {
	r, err := http.NewRequestWithContext(x.ctx, method, os.Getenv("CODER_URL")+path, strings.NewReader(body))
	x.NoError(err)
	r.Header.Set("Coder-Session-Token", os.Getenv("CODER_SESSION_TOKEN"))
	res, err := http.DefaultClient.Do(r)
	x.NoError(err)
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	x.NoError(err)
	x.Less(res.StatusCode, 300, "%s %s: %s", method, path, b)
	return string(b)
}

// requireReason requires that err has the reason and can be shown to users.
func (x *recordedPlace) requireReason(err error, want fleet.Reason) *fleet.Error {
	x.Helper()
	e, ok := errors.AsType[*fleet.Error](err)
	x.True(ok, "%T %v", err, err)
	x.Equal(want, e.Reason, e.Message)
	x.NotContains(e.Error(), "<")
	return e
}

// matches reports whether the request r is the recorded request i. It ignores the host, the headers and the random names of tokens,
// and compares messages to runners with sameMessage.
func matches(r *http.Request, i cassette.Request) bool {
	u, err := url.Parse(i.URL)
	if err != nil || r.Method != i.Method || r.URL.Path != u.Path || r.URL.RawQuery != u.RawQuery {
		return false
	}
	if r.Body == nil || r.Body == http.NoBody {
		return i.Body == ""
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	if strings.Contains(r.URL.Path, runnerService) {
		return sameMessage(b, []byte(i.Body))
	}
	return tokenNamePattern.ReplaceAllString(string(b), fixedTokenName) == i.Body
}

// runnerService is the path prefix of calls to runners.
const runnerService = "/fleet.runner.v1.RunnerService/"

// sameMessage reports whether two messages of the Connect protocol are equal. It ignores white space, which differs between programs,
// and fields that did not exist when the message was recorded.
func sameMessage(got, recorded []byte) bool {
	var a, b map[string]any
	for into, body := range map[*map[string]any][]byte{&a: got, &b: recorded} {
		if len(body) > envelopeSize && body[0] != '{' {
			body = body[envelopeSize:]
		}
		if json.Unmarshal(body, into) != nil {
			return false
		}
	}
	return hasAll(a, b)
}

// envelopeSize is the size of the envelope before each message in a stream, in bytes.
const envelopeSize = 5

// hasAll reports whether got has all fields of recorded, with the same values.
func hasAll(got, recorded map[string]any) bool {
	for key, want := range recorded {
		below, ok := want.(map[string]any)
		if !ok {
			if !reflect.DeepEqual(got[key], want) {
				return false
			}
			continue
		}
		if inner, ok := got[key].(map[string]any); !ok || !hasAll(inner, below) {
			return false
		}
	}
	return true
}

// recordedOnly makes a call to a runner fail if the call was not recorded. Otherwise the client would retry it like an
// interrupted call.
type recordedOnly struct{ http.RoundTripper }

func (o recordedOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := o.RoundTripper.RoundTrip(r)
	if err != nil && strings.Contains(r.URL.Path, runnerService) && r.Context().Err() == nil {
		return nil, fleet.Errorf(fleet.ReasonInternal, "%s is not recorded: %s", r.URL.Path, err)
	}
	return res, err
}

// firstEvents ends event streams after the first event with data, because a recorder reads bodies to their end.
type firstEvents struct{ http.RoundTripper }

func (f firstEvents) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := f.RoundTripper.RoundTrip(r)
	if err != nil || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return res, err
	}
	defer func() { _ = res.Body.Close() }()
	var head bytes.Buffer
	lines := bufio.NewReader(res.Body)
	for hasData := false; ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil, err
		}
		head.WriteString(line)
		hasData = hasData || strings.HasPrefix(line, "data: [")
		if hasData && strings.TrimSpace(line) == "" {
			break
		}
	}
	res.Body = io.NopCloser(&head)
	return res, nil
}

// noStream refuses AgentAPI's event stream, so that conversations are polled.
type noStream struct{ http.RoundTripper }

func (n noStream) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/events") {
		return nil, errors.New("no stream of events in a recording")
	}
	return n.RoundTripper.RoundTrip(r)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
