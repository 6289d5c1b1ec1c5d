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
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/dnaeon/go-vcr.v3/cassette"
	"gopkg.in/dnaeon/go-vcr.v3/recorder"

	"fleet/internal/fleet"
	"fleet/internal/place/coder"
	"fleet/internal/runner/remote"
)

// record makes TestCassettes record the cassettes from a test bed (testdata/coder-testbed) whose environment is set (`eval
// "$(env.sh bob)"`). TestCassettes then creates and deletes the user's workspaces agent-cas-.... Without record, it replays
// the cassettes.
var record = flag.Bool("record", false, "record the cassettes from a real Coder deployment")

const (
	cassettes           = "../../../testdata/cassettes"
	testbed             = "../../../testdata/coder-testbed"
	recordedURL            = "http://coder.test"
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

	clock *replayClock
}

// newRecordedPlace returns a place that uses the cassette with the test's name.
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

// ready returns a running agent.
func (x *recordedPlace) ready(suffix string) fleet.Agent {
	a := x.agent(suffix)
	x.prepare(func() {
		_, err := x.live.Provision(x.ctx, a)
		x.NoError(err)
		x.awaitLive(a, fleet.StateRunning)
	})
	return a
}

// prepare runs the function only if the test records. The function makes changes in the real Coder that are not
// recorded.
func (x *recordedPlace) prepare(do func()) {
	if *record {
		do()
	}
}

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
		x.prepare(func() { time.Sleep(time.Second) })
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

// request sends a request to Coder that is not recorded.
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

// matches compares all parts of a request except the host.
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

// sameMessage compares messages of the Connect protocol. It ignores white space, which differs between programs, and
// fields that did not exist when the message was recorded.
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

// Tokens that Fleet creates have a random name and secret. Recordings have fixedTokenName and fixedToken instead.
var (
	tokenNamePattern = regexp.MustCompile(`"token_name":"fleet-[0-9a-f]{8}"`)
	keyPathPattern   = regexp.MustCompile(`/keys/[A-Za-z0-9]{10}$`)
)

const (
	fixedTokenName = `"token_name":"fleet-0"`
	fixedToken     = "minted-token"
)

// scrub removes secrets, and values that differ between recordings.
func scrub(i *cassette.Interaction) error {
	i.Request.Headers, i.Request.Host, i.Request.RemoteAddr, i.Request.Form = nil, "", "", nil
	i.Request.URL = strings.Replace(i.Request.URL, os.Getenv("CODER_URL"), recordedURL, 1)
	i.Request.URL = keyPathPattern.ReplaceAllString(i.Request.URL, "/keys/minted")
	i.Request.Body = tokenNamePattern.ReplaceAllString(i.Request.Body, fixedTokenName)
	i.Response.Body = tokenPattern.ReplaceAllString(i.Response.Body, fixedToken)
	headers := http.Header{}
	for _, name := range []string{"Content-Type", "Retry-After", "Location", remote.VersionHeader} {
		if v := i.Response.Headers.Get(name); v != "" {
			headers.Set(name, v)
		}
	}
	i.Response.Headers, i.Response.Duration = headers, 0
	for old, replacement := range map[string]string{
		os.Getenv("CODER_URL"): recordedURL, os.Getenv("TESTBED_DIR"): "/testbed", os.Getenv("CODER_SESSION_TOKEN"): "TOKEN",
	} {
		if old != "" {
			i.Response.Body = strings.ReplaceAll(i.Response.Body, old, replacement)
		}
	}
	if host, err := os.Hostname(); err == nil {
		i.Response.Body = strings.ReplaceAll(i.Response.Body, host, "host")
	}
	i.Response.ContentLength = int64(len(i.Response.Body))
	return nil
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
	for data := false; ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil, err
		}
		head.WriteString(line)
		data = data || strings.HasPrefix(line, "data: [")
		if data && strings.TrimSpace(line) == "" {
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

// replayClock is the clock of a replay. It shows the latest time in the answers that have been replayed so far.
type replayClock struct {
	mu sync.Mutex
	at time.Time
}

var timePattern = regexp.MustCompile(`"(?:now|created_at|updated_at|started_at|completed_at|ready_at|last_connected_at)": ?"(2[^"]+)"`)

func (c *replayClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at.Add(time.Second)
}

// advance advances the clock by d.
func (c *replayClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// observe returns a transport that advances the clock to the times in the answers of next.
func (c *replayClock) observe(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		res, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(res.Body)
		if err != nil {
			return nil, err
		}
		res.Body = io.NopCloser(bytes.NewReader(b))
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, found := range timePattern.FindAllSubmatch(b, -1) {
			if at, err := time.Parse(time.RFC3339Nano, string(found[1])); err == nil && at.After(c.at) {
				c.at = at
			}
		}
		return res, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// secretWords must not occur in a recording, in upper or lower case. tokenPattern matches Coder's tokens.
var (
	secretWords  = []string{"coder-session-token", "set-cookie", "authorization", "bearer ", "-----begin", "sk-ant-", "ghp_", "\n                date:", "/root/", "/home/"}
	tokenPattern = regexp.MustCompile(`\b[A-Za-z0-9]{10}-[A-Za-z0-9]{22}\b`)
)

// TestCassettesHaveNoSecrets searches every cassette for secrets.
func TestCassettesHaveNoSecrets(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(cassettes, "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			c, err := cassette.Load(strings.TrimSuffix(file, ".yaml"))
			require.NoError(t, err)
			for _, i := range c.Interactions { // checks the decoded bodies, because the file has some bodies in base64
				b = append(b, i.Request.Body+"\n"+i.Response.Body+"\n"...)
			}
			small := bytes.ToLower(b)
			for _, word := range secretWords {
				require.False(t, bytes.Contains(small, []byte(word)), "the cassette must not have %q", word)
			}
			require.Nil(t, tokenPattern.FindIndex(b), "the cassette must not have a text that looks like a session token")
		})
	}
}
