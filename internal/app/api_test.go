package app

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/facetest"
	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/waittest"
)

// behaviour is the content of a file in testdata/api: calls with their expected answers.
// testdata/api/README.md describes the keys.
type behaviour struct {
	About  string                 `yaml:"about"`
	Faces  []string               `yaml:"faces"`
	Tokens map[string]tokenConfig `yaml:"tokens"`
	Server struct {
		CreateWait   string `yaml:"create_wait"`
		MaxResult    int    `yaml:"max_result"`
		StopGrace    string `yaml:"stop_grace"`
		MessageWait  string `yaml:"message_wait"`
		StallTimeout string `yaml:"stall_timeout"`
		UniqueNames  bool   `yaml:"unique_names"`
		NoMessages   bool   `yaml:"no_messages"`
		Adopts       bool   `yaml:"adopts"`
		Unlisted     string `yaml:"unlisted"`
		Second       *struct {
			Name     string   `yaml:"name"` // name of the place
			Unlisted string   `yaml:"unlisted"`
			Projects []string `yaml:"projects"`
		} `yaml:"second"`

		Limits       fleet.Limits `yaml:"limits"`
		MaxContracts int          `yaml:"max_contracts"`
	} `yaml:"server"`
	Given []step    `yaml:"given"`
	Cases []apiCase `yaml:"cases"`
}

// apiCase is one call or HTTP request, with its expected answer.
type apiCase struct {
	Name      string         `yaml:"name"`
	Faces     []string       `yaml:"faces"`
	Large     bool           `yaml:"large"`
	Given     []step         `yaml:"given"`
	Meanwhile []step         `yaml:"meanwhile"`
	Call      string         `yaml:"call"`
	With      map[string]any `yaml:"with"`
	Caller    string         `yaml:"by"`
	HTTP      *httpRequest   `yaml:"http"`

	Answer any               `yaml:"answer"`
	Has    any               `yaml:"has"`
	Error  *expectedError    `yaml:"error"`
	Status int               `yaml:"status"`
	Header map[string]string `yaml:"header"`
	Save   map[string]string `yaml:"save"`
}

// httpRequest is an HTTP request that is sent as it is, instead of a call of a method.
type httpRequest struct {
	Verb   string            `yaml:"verb"`
	Path   string            `yaml:"path"`
	Header map[string]string `yaml:"header"`
	Body   string            `yaml:"body"`
}

// expectedError is the error that a case expects.
type expectedError struct {
	Reason  string `yaml:"reason"`
	Code    string `yaml:"code"`
	HTTP    int    `yaml:"http"`
	Says    any    `yaml:"says"`
	Details any    `yaml:"details"`
}

const apiDir = repository + "/testdata/api"

// readBehaviours returns the behaviours in testdata/api by their path there, without the extension.
func readBehaviours(t *testing.T) map[string]*behaviour {
	t.Helper()
	all := map[string]*behaviour{}
	require.NoError(t, filepath.WalkDir(apiDir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(path) //nolint:gosec // our own
		if err != nil {
			return err
		}
		b := &behaviour{}
		if err := yaml.UnmarshalWithOptions(data, b, yaml.Strict()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		name, err := filepath.Rel(apiDir, strings.TrimSuffix(path, ".yaml"))
		all[filepath.ToSlash(name)] = b
		return err
	}))
	return all
}

// TestAPI runs every behaviour of testdata/api on each of its faces, each time with a new fleet.
func TestAPI(t *testing.T) {
	t.Parallel()
	for name, b := range readBehaviours(t) {
		for _, face := range b.faces() {
			t.Run(name+"/"+face, func(t *testing.T) {
				t.Parallel()
				b.run(t, face)
			})
		}
	}
}

// faces returns the faces on which the behaviour can run.
func (b *behaviour) faces() []string {
	all := []string{"grpc", "rest", "mcp"}
	if slices.ContainsFunc(b.Cases, func(c apiCase) bool { return c.Call == "watch_fleet" }) {
		all = append(all, "sse")
	}
	return slices.DeleteFunc(all, func(face string) bool {
		return b.Faces != nil && !slices.Contains(b.Faces, face) ||
			!slices.ContainsFunc(b.Cases, func(c apiCase) bool { return c.runsOn(face) })
	})
}

// runsOn reports whether the case can run on the face.
func (c *apiCase) runsOn(face string) bool {
	switch m := methods[c.Call]; {
	case c.Large && underRace && face != "grpc": // JSON of 16 MB takes longer than all other cases together
		return false
	case c.Faces != nil:
		return slices.Contains(c.Faces, face) || face == "sse" && slices.Contains(c.Faces, "rest")
	case c.HTTP != nil:
		return face == "rest"
	case m != nil && !hasTool(m):
		return face != "mcp"
	}
	return true
}

func (b *behaviour) run(t *testing.T, face string) {
	c := fleetConfig{Tokens: b.Tokens, Limits: b.Server.Limits, MaxContracts: b.Server.MaxContracts, ListError: b.Server.Unlisted, Place: fake.Config{
		NoMessages: b.Server.NoMessages, Credentials: map[string]string{"DataOne": "team-max"}, Traits: fleet.Traits{UniqueNames: b.Server.UniqueNames, Adopts: b.Server.Adopts},
	}}
	c.MaxResult = b.Server.MaxResult
	if second := b.Server.Second; second != nil {
		c.Second = &fake.Config{Traits: fleet.Traits{Name: cmp.Or(second.Name, "second"), Adopts: true}}
		for _, name := range second.Projects {
			c.Second.Projects = append(c.Second.Projects, fake.Project{Project: fleet.Project{Name: name}})
		}
		c.SecondListError = second.Unlisted
	}
	for text, d := range map[string]*time.Duration{b.Server.CreateWait: &c.CreateWait, b.Server.StopGrace: &c.StopGrace, b.Server.MessageWait: &c.MessageWait, b.Server.StallTimeout: &c.StallTimeout} {
		if text != "" {
			var err error
			*d, err = time.ParseDuration(text)
			require.NoError(t, err)
		}
	}
	registry, err := testRegistry()
	require.NoError(t, err)
	f := newTestFleet(t, c)
	f.variables["registry"] = registry
	f.prepare(t, b.Given...)
	for i, c := range b.Cases {
		if !c.runsOn(face) {
			continue
		}
		name := c.Name
		if name == "" {
			name = fmt.Sprintf("%d", i+1)
		}
		t.Run(name, func(t *testing.T) { f.check(t, face, c) })
	}
}

// check executes the steps and the call of the case, and compares the answer with the expected answer.
func (f *testFleet) check(t *testing.T, face string, c apiCase) {
	ctx, cancel := context.WithTimeout(t.Context(), waittest.Limit)
	defer cancel()
	for _, st := range c.Given {
		require.NoError(t, f.execute(ctx, st))
	}
	if c.HTTP != nil {
		f.checkHTTP(ctx, t, c)
		return
	}
	caller, _ := f.expand(c.Caller).(string)
	call, err := f.callOf(c.Call, caller, c.With)
	require.NoError(t, err)
	var meanwhile sync.WaitGroup
	var stepErr error
	meanwhile.Go(func() {
		for _, st := range c.Meanwhile {
			if stepErr = f.execute(ctx, st); stepErr != nil {
				return
			}
		}
	})
	r, err := faces[face](f, ctx, call)
	meanwhile.Wait()
	require.NoError(t, stepErr)
	require.NoError(t, err)
	f.compare(t, c, r)
	for k, v := range c.Header {
		if r.header != nil {
			require.Equal(t, v, r.header.Get(k), k)
		}
	}
}

func (f *testFleet) compare(t *testing.T, c apiCase, r reply) {
	t.Helper()
	if c.Error != nil {
		require.NotNil(t, r.err, "an error is expected, not %s", shortJSON(r.answer))
		f.compareError(t, c.Error, r.err)
		return
	}
	require.Nil(t, r.err, "%s", r.err)
	require.True(t, c.Answer != nil || c.Has != nil, "the case must have an expected answer")
	if c.Answer != nil {
		require.Empty(t, exactMismatches(f.expandToJSON(c.Answer), r.answer), "in %s", shortJSON(r.answer))
	}
	if c.Has != nil {
		require.Empty(t, mismatches(f.expandToJSON(c.Has), r.answer), "in %s", shortJSON(r.answer))
	}
	require.NoError(t, f.saveParts(c.Save, r.answer))
}

func (f *testFleet) compareError(t *testing.T, want *expectedError, got *apiError) {
	t.Helper()
	require.Equal(t, want.Reason, got.Reason, "%s", got)
	if got.code != nil {
		require.Equal(t, want.Code, strings.ToUpper(facetest.ToolName(got.code.String())), "%s", got)
	}
	if got.http != 0 {
		require.Equal(t, want.HTTP, got.http, "%s", got)
	}
	require.NotNil(t, want.Says, "the case must say what the message has: %s", got)
	for _, part := range stringList(want.Says) {
		require.Contains(t, got.Message, f.expand(part))
	}
	var details any
	if got.Details != nil {
		details = got.Details
	}
	require.Empty(t, exactMismatches(f.expandToJSON(want.Details), details), "in the details %s", shortJSON(details))
}

// checkHTTP sends the HTTP request of the case and checks the answer.
func (f *testFleet) checkHTTP(ctx context.Context, t *testing.T, c apiCase) {
	body, _ := f.expand(c.HTTP.Body).(string)
	path, _ := f.expand(c.HTTP.Path).(string)
	r, err := http.NewRequestWithContext(ctx, c.HTTP.Verb, "http://"+f.HTTPAddr()+path, bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	if a := f.authorization(c.Caller); a != "" {
		r.Header.Set("Authorization", a)
	}
	for k, v := range c.HTTP.Header {
		value, _ := f.expand(v).(string)
		if r.Header.Set(k, value); k == "Host" {
			r.Host = value
		}
	}
	resp, err := f.http.Do(r)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	for k, v := range c.Header {
		require.Empty(t, exactMismatches(f.expandToJSON(v), resp.Header.Get(k)), k)
	}
	for name, source := range c.Save {
		if k, ok := strings.CutPrefix(source, "header "); ok {
			f.variables[name] = resp.Header.Get(k)
			delete(c.Save, name)
		}
	}
	if c.Error != nil {
		e, err := readError(data)
		require.NoError(t, err)
		e.http = resp.StatusCode
		f.compareError(t, c.Error, e)
		return
	}
	require.Equal(t, c.Status, resp.StatusCode, "%.500s", data)
	if c.Answer == nil && c.Has == nil {
		require.True(t, len(data) == 0 || c.Status >= 400, "the case expects no content, not %.500s", data)
		return
	}
	answer, err := decodeJSON(data)
	require.NoError(t, err)
	f.compare(t, c, reply{answer: answer})
}

// TestAPIIsCovered fails if no behaviour checks the complete answer of a method, or an error reason that is not tested elsewhere.
func TestAPIIsCovered(t *testing.T) {
	t.Parallel()
	checkedAnswers, checkedReasons := map[string]bool{}, map[string]bool{}
	for name, b := range readBehaviours(t) {
		require.NotEmpty(t, b.About, name)
		require.NotEmpty(t, b.faces(), name)
		for _, c := range b.Cases {
			require.True(t, (c.Call == "") != (c.HTTP == nil), "%s: a case has either a call or an http request", name)
			checkedAnswers[c.Call] = checkedAnswers[c.Call] || c.Answer != nil
			if c.Error != nil {
				checkedReasons[c.Error.Reason] = true
			}
		}
	}
	for _, m := range slices.Sorted(maps.Keys(methods)) {
		require.True(t, checkedAnswers[m] || methods[m].IsStreamingClient(), "no behaviour checks the complete answer of %s", m)
	}
	testedElsewhere := []string{
		"SESSION_EXISTS",                                     // tested in the core
		"CURSOR_EXPIRED",                                     // tested in the core
		"CHECKS_FAILED",                                      // the reason_code of tasks
		"BRANCH_MOVED", "BRANCH_CHECKED_OUT", "PUSH_REFUSED", // tested with repositories
		"DELEGATION_REFUSED",             // tested with tokens of agents
		"PLAN_OUTDATED",                  // the reason of items of a bulk
		"CANCELLED", "DEADLINE_EXCEEDED", // the caller has stopped waiting
	}
	for number, reason := range fleetv1.ErrorReason_name {
		require.True(t, number == 0 || checkedReasons[reason] != slices.Contains(testedElsewhere, reason), "no behaviour fails with %s, or it is listed as tested elsewhere", reason)
	}
}
