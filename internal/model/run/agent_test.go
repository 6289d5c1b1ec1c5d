//go:build cgo

package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/place/placetest/model"
	"fleet/internal/price"
	"fleet/internal/runner/driver"
	"fleet/internal/waittest"
)

// workerDoc is the beginning of a definition with one agent, root, whose model is the stub. Tests append further fields of root.
const workerDoc = `
models:
  stub: {provider: anthropic, model: stub-large, base_url: "MODEL"}
agents:
  root:
    model: stub
    instruction: Work.
`

// fixture is a place with one agent.
type fixture struct {
	t     *testing.T
	place local.ModelPlace
	model *model.Server
	cfg   local.Config
	agent fleet.Agent
}

// newFixture creates a place and an agent with the configuration. It replaces "MODEL" in the agent's document with the URL of
// the model. An agent without a document gets a default one. configure changes the place's configuration; it may be nil.
func newFixture(t *testing.T, agentConfig fleet.AgentConfig, configure func(*local.Config)) *fixture {
	t.Helper()
	d := &fixture{t: t, model: model.New(t), cfg: local.Config{Dir: t.TempDir(), Environ: environment()}}
	withProcesses(t, &d.cfg)
	if configure != nil {
		configure(&d.cfg)
	}
	agentConfig.Driver = driver.Cagent
	switch {
	case agentConfig.Document == "":
		agentConfig.Document = document(d.model, model.Anthropic)
	case strings.Contains(agentConfig.Document, "MODEL"):
		agentConfig.Document = strings.ReplaceAll(agentConfig.Document, "MODEL", d.model.URL)
	}
	d.open()
	d.provision(fleet.Agent{UID: uuid.NewString(), Name: "papi", Owner: "alice", Config: &agentConfig})
	t.Cleanup(func() { require.NoError(t, d.place.Close()) })
	return d
}

// provision provisions the agent, and makes it the agent of the fixture.
func (f *fixture) provision(a fleet.Agent) {
	f.t.Helper()
	w, err := f.place.Provision(f.t.Context(), a)
	require.NoError(f.t, err)
	a.WorkspaceID, a.Location = w.ID, w.Location
	f.agent = a
}

func (f *fixture) open() {
	f.t.Helper()
	p, err := local.New(f.cfg)
	require.NoError(f.t, err)
	f.place = p.ModelPlace()
}

// startTask dispatches a task with the prompt to the agent.
func (f *fixture) startTask(prompt string) fleet.Run {
	f.t.Helper()
	r := fleet.Run{TaskID: uuid.NewString(), Prompt: prompt, Timeout: waittest.Limit, StartedAt: time.Now()}
	require.NoError(f.t, f.place.Connect(f.agent).Dispatch(f.t.Context(), r))
	return r
}

// waitForEnd waits for the end of the task, and returns its outputs and outcome.
func (f *fixture) waitForEnd(r fleet.Run) ([]fleet.Output, fleet.Outcome) {
	f.t.Helper()
	var all []fleet.Output
	ctx, cancel := context.WithTimeout(f.t.Context(), waittest.Limit)
	defer cancel()
	o, err := f.place.Connect(f.agent).Follow(ctx, r, "", func(out fleet.Output) error {
		all = append(all, out)
		return nil
	})
	require.NoError(f.t, err)
	return all, o
}

// runTask runs a task with the prompt, and returns its outputs and outcome.
func (f *fixture) runTask(prompt string) ([]fleet.Output, fleet.Outcome) {
	f.t.Helper()
	return f.waitForEnd(f.startTask(prompt))
}

// requireFailed requires that the run has failed for a reason that contains the text.
func requireFailed(t *testing.T, o fleet.Outcome, reason string) {
	t.Helper()
	require.Equal(t, fleet.TaskFailed, o.Status, o.Summary)
	require.Contains(t, o.Reason, reason)
}

// lastRequest returns the latest request to the model.
func (f *fixture) lastRequest() model.Request {
	all := f.model.Requests()
	return all[len(all)-1]
}

// results returns the tool results in the latest request to the model.
func (f *fixture) results() (texts []string) {
	for _, m := range f.lastRequest().Results() {
		texts = append(texts, m.Text)
	}
	return texts
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	for _, api := range []string{model.Anthropic, model.OpenAI} {
		t.Run(api, func(t *testing.T) {
			d := newFixture(t, fleet.AgentConfig{SystemPrompt: "You are careful."}, func(c *local.Config) {
				c.Models.Settings.Prices = price.NewList(map[string]fleet.Price{"anthropic/stub-large": {Input: 1, Output: 10}, "openai/stub-large": {Input: 1, Output: 10}})
			})
			d.agent.Config.Document = document(d.model, api)
			d.agent.UID = uuid.NewString()
			d.provision(d.agent)
			all, o := d.runTask(`model: tools [{"name":"think","input":{"thought":"a"}},{"name":"think","input":{"thought":"b"}}]` + "\nmodel: say done it")
			require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
			require.Equal(t, "done it", o.Summary)
			require.Equal(t, 2, o.Turns)
			require.Equal(t, fleet.Usage{Model: "stub-large", InputTokens: 2000, OutputTokens: 1000, ToolCalls: 2}, o.Usage)
			require.InDelta(t, (2000*1+1000*10)/1e6, o.CostUSD, 1e-9)
			var types []string
			for _, out := range all {
				var data struct{ Type, Name, ID, Agent string }
				if out.Data != nil {
					require.NoError(t, json.Unmarshal(out.Data, &data))
				}
				kind := strings.TrimSpace(data.Type + " " + data.Name)
				if kind != "text" || len(types) == 0 || types[len(types)-1] != kind { // a line that the model writes slowly comes in pieces
					types = append(types, kind)
				}
				require.Equal(t, out.IsStep, data.Type != "text")
				require.Equal(t, "root", data.Agent)
				require.Equal(t, data.Type == "tool_call", out.RunningToolCalls == 1, "a tool must be open after a tool_call, and only then")
			}
			require.Equal(t, []string{"usage", "tool_call think", "tool_result think", "tool_call think", "tool_result think", "text", "usage"}, types)
			q := d.model.Requests()[0]
			require.Equal(t, stubKey, q.Key())
			require.Contains(t, q.System, "You do as you are told.")
			require.Contains(t, q.System, "You are careful.")
			require.Len(t, d.model.Requests(), 2, "the model must not be asked for a title")
		})
	}
}

// TestReports checks that a run ends when the agent reports its result, and that no further request is sent to the
// model.
func TestReports(t *testing.T) {
	t.Parallel()
	d := newFixture(t, fleet.AgentConfig{Reports: true}, nil)
	_, o := d.runTask(`model: tools [{"name":"agent_complete","input":{"summary":" "}},{"name":"agent_complete","input":{"summary":"x","agent_id":"other"}}]` +
		"\n" + `model: tools [{"name":"agent_complete","input":{"summary":"All done.","payload":{"a":1}}},{"name":"agent_complete","input":{"summary":"Again."}},{"name":"think","input":{"thought":"more"}}]`)
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Equal(t, "All done.", o.Summary)
	require.JSONEq(t, `{"a":1}`, string(o.Payload))
	require.Len(t, d.model.Requests(), 2)
	require.Contains(t, d.results()[0], "summary is required")
	require.Contains(t, d.results()[1], "not yours")
	_, o = d.runTask("hello") // the conversation continues
	require.Equal(t, "You said: hello", o.Summary)
	require.Contains(t, strings.Join(d.results(), "\n"), "The tool was not used: the agent has reported its result.")
}

// TestInterrupt checks that an interrupt lets the active request complete and prevents further requests, and that an interrupt
// by force cancels the active request.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	d := newFixture(t, fleet.AgentConfig{Tools: []fleet.Tool{hangingTool(t, "wait")}, PrivateHosts: []string{"127.0.0.1"}}, nil)
	d.model.SetAnswer(func(r model.Request) model.Answer {
		a := model.ScriptedAnswer(r)
		if a.Gate == "on" { // the run cannot end before it notices the interrupt
			a.Calls = []model.Call{{Name: "wait", Input: []byte(`{}`)}}
		}
		return a
	})
	r := d.startTask("model: hang on\nmodel: say never")
	<-d.model.Gate("on").Arrived()
	require.NoError(t, d.place.Connect(d.agent).Interrupt(t.Context(), r, false))
	d.model.Gate("on").Open()
	all, o := d.waitForEnd(r)
	require.Equal(t, fleet.TaskStopped, o.Status)
	require.Contains(t, all[0].Text, "Went on", "the answer to the active request must be complete")
	require.Len(t, d.model.Requests(), 1)

	r = d.startTask("model: forever hm")
	<-d.model.Gate("forever").Arrived()
	require.NoError(t, d.place.Connect(d.agent).Interrupt(t.Context(), r, true))
	_, o = d.waitForEnd(r)
	require.Equal(t, fleet.TaskStopped, o.Status)
	<-d.model.Gate("forever").Left()
}

// TestLimits checks that limits end tools and MCP servers that hang, and runs whose model never stops.
func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("a tool", func(t *testing.T) {
		waittest.WithGrowingLimit(t, 100*time.Millisecond, func(limit time.Duration) (begun bool) {
			d := newFixture(t, fleet.AgentConfig{PrivateHosts: []string{"127.0.0.1"}, Tools: []fleet.Tool{
				{Name: "wait", HTTP: &fleet.HTTPTool{URL: model.HangingServer(t)}},
				{Name: "sleep", Command: []string{"sh", "-c", "sleep 1000 & wait"}},
				{Name: "flood", Command: []string{"sh", "-c", "yes"}},
			}}, func(c *local.Config) {
				c.Models.Settings.ToolTimeout, c.Models.Settings.MaxToolOutput = limit, 1000
			})
			all, o := d.runTask("model: tools [{\"name\":\"wait\",\"input\":{}},{\"name\":\"sleep\",\"input\":{}},{\"name\":\"flood\",\"input\":{}}]\nmodel: say gave up")
			require.Equal(t, "gave up", o.Summary)
			if strings.Contains(fmt.Sprint(all), "are missing") { // the limit was reached when the tools were started or listed
				return false
			}
			for _, result := range d.results() {
				require.Contains(t, result, "did not answer within "+limit.String())
			}
			return true
		})
	})
	t.Run("a server of tools", func(t *testing.T) {
		d := newFixture(t, fleet.AgentConfig{MCPServers: []fleet.MCPServer{{Name: "x", URL: model.HangingServer(t)}, {Name: "y", Command: "sleep", Args: []string{"1000"}}}},
			func(c *local.Config) { c.Models.Settings.ToolTimeout = 100 * time.Millisecond })
		all, o := d.runTask("hello")
		require.Equal(t, "You said: hello", o.Summary, "%v", o.Reason)
		require.Contains(t, all[0].Text, "did not answer in time")
	})
	t.Run("requests", func(t *testing.T) {
		d := newFixture(t, fleet.AgentConfig{}, func(c *local.Config) { c.Models.Settings.MaxRequests = 5 })
		d.model.SetAnswer(func(model.Request) model.Answer {
			return model.Answer{Calls: []model.Call{{Name: "think", Input: []byte(`{"thought":"hm"}`)}}}
		})
		_, o := d.runTask("think")
		requireFailed(t, o, "it has sent 5 requests")
		require.Len(t, d.model.Requests(), 5)
	})
	t.Run("output", func(t *testing.T) {
		d := newFixture(t, fleet.AgentConfig{}, func(c *local.Config) { c.Models.Settings.MaxOutput = 2000 })
		_, o := d.runTask("model: forever \"more and more\\n\"")
		requireFailed(t, o, "exceeded the limit of 2000 bytes")
	})
}

// TestBadModelAnswers checks runs whose model answers with errors, with calls of unknown tools, or with its own key, and runs
// without a key.
func TestBadModelAnswers(t *testing.T) {
	t.Parallel()
	d := newFixture(t, fleet.AgentConfig{}, nil)
	for prompt, want := range map[string]string{
		"model: refuse 401 bad key " + stubKey: "401",
		"model: refuse 429 slow down":          "slow down",
		"model: refuse 500 on fire":            "on fire",
		"model: cut half":                      "stream ended early",
	} {
		all, o := d.runTask(prompt)
		requireFailed(t, o, want)
		require.True(t, strings.HasPrefix(o.Reason, "the model anthropic/stub-large: "), o.Reason)
		require.NotContains(t, fmt.Sprint(all, o), stubKey)
	}
	_, o := d.runTask(`model: tool made_up {"a":1}` + "\nmodel: say went on")
	require.Equal(t, "went on", o.Summary, o.Reason)
	require.Contains(t, d.results()[0], "no such tool")
	all, o := d.runTask("model: say the key is " + stubKey)
	require.NotContains(t, fmt.Sprint(all, o), stubKey)

	e := newFixture(t, fleet.AgentConfig{}, func(c *local.Config) {
		c.Environ = []string{"PATH=" + os.Getenv("PATH")}
	})
	_, o = e.runTask("hello")
	requireFailed(t, o, "ANTHROPIC_API_KEY")
	require.Empty(t, e.model.Requests())
}

// TestConversationSurvives checks that a run and the conversation survive a restart of the server. A crash may leave an
// incomplete last line in the conversation's file. The next run must remove it.
func TestConversationSurvives(t *testing.T) {
	t.Parallel()
	d := newFixture(t, fleet.AgentConfig{}, nil)
	d.runTask(`model: tool think {"thought":"first"}` + "\nmodel: say noted")
	r := d.startTask("model: tool think {\"thought\":\"second\"}\nmodel: hang here\nmodel: say Went on")
	<-d.model.Gate("here").Arrived()
	require.NoError(t, d.place.Close())
	d.open()
	d.model.Gate("here").Open()
	_, o := d.waitForEnd(r)
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	f, err := os.OpenFile(filepath.Join(d.cfg.Dir, "agents", d.agent.UID, "state", "conversation.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"message":{"agentName":"ro`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, o = d.runTask("model: say third")
	require.Equal(t, "third", o.Summary, o.Reason)
	said := d.lastRequest().Transcript()
	for _, want := range []string{"noted", "hang here", "Now think", "model: say third"} {
		require.Contains(t, said, want)
	}
}

// TestPermissions checks that a tool runs only if the definition or the configuration allows it.
func TestPermissions(t *testing.T) {
	t.Parallel()
	const doc = workerDoc + `    toolsets: [{type: shell}, {type: filesystem}, {type: think}, {type: script, shell: {greet: {cmd: 'echo "hi $who"', description: Greets., args: {who: {type: string, description: Whom.}}}}}]
`
	run := `model: tools [{"name":"shell","input":{"cmd":"echo ran","cwd":""}},{"name":"think","input":{"thought":"t"}},{"name":"greet","input":{"who":"Ann"}},` +
		`{"name":"greet","input":{"PATH":"/tmp"}},{"name":"write_file","input":{"path":"f.txt","content":"x"}},{"name":"list_directory","input":{"path":"."}}]` + "\nmodel: say ok"
	tests := []struct {
		name, permissions string
		agentConfig       fleet.AgentConfig
		approve           []string
		want              []string
	}{
		{"by default", "", fleet.AgentConfig{}, nil, []string{"nobody to ask", "t", "hi Ann", "no argument", "nobody to ask", ""}},
		{"the document allows", "permissions: {allow: [shell, write_file]}", fleet.AgentConfig{}, nil, []string{"ran", "t", "hi Ann", "no argument", "", ""}},
		{"the document denies", "permissions: {deny: [think]}", fleet.AgentConfig{}, nil, []string{"nobody", "denied", "hi Ann", "no argument", "nobody", ""}},
		{"the configuration allows one", "permissions: {allow: [shell]}", fleet.AgentConfig{Allow: []string{"think"}}, nil, []string{"not among", "t", "not among", "not among", "not among", "not among"}},
		{"the configuration denies", "permissions: {allow: [shell]}", fleet.AgentConfig{Deny: []string{"shell"}}, nil, []string{"denied", "t", "hi Ann", "", "", ""}},
		{"the configuration approves", "", fleet.AgentConfig{}, []string{"shell", "filesystem"}, []string{"ran", "t", "nobody", "nobody", "", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.agentConfig.Document = doc + tt.permissions
			d := newFixture(t, tt.agentConfig, func(c *local.Config) { c.Models.Settings.ApprovedTypes = tt.approve })
			_, o := d.runTask(run)
			require.Equal(t, "ok", o.Summary, o.Reason)
			results := d.results()
			require.Len(t, results, len(tt.want))
			for i, want := range tt.want {
				require.Contains(t, results[i], want, "%d of %q", i, results)
			}
			_, err := os.Stat(filepath.Join(d.agent.Location, "f.txt"))
			require.Equal(t, strings.Contains(results[4], "f.txt") && !strings.Contains(results[4], "write_file"), err == nil, "%s", results[4])
		})
	}
}

// TestRegisteredTools checks registered tools that are HTTP endpoints or programs.
func TestRegisteredTools(t *testing.T) {
	t.Parallel()
	tokens := map[string]string{} // by path
	s := model.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens[r.URL.Path] = r.Header.Get("X-Token")
		if r.URL.Path == "/broken" {
			http.Error(w, "no, and the key is "+stubKey, http.StatusTeapot)
			return
		}
		_, _ = fmt.Fprint(w, "sunny")
	}))
	schema := json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)
	tools := []fleet.Tool{
		{Name: "weather", Description: "Tells the weather.", Parameters: schema, HTTP: &fleet.HTTPTool{URL: s.URL, Headers: map[string]string{"X-Token": "Bearer ${WEATHER}"}}},
		{Name: "broken", Parameters: schema, HTTP: &fleet.HTTPTool{URL: s.URL + "/broken"}},
		{Name: "upper", Parameters: schema, Command: []string{"tr", "a-z", "A-Z"}},
		{Name: "false", Parameters: schema, Command: []string{"false"}},
		{Name: "late", Parameters: schema, Command: []string{"sh", "-c", "{ while kill -0 $$; do sleep 0.01; done 2>/dev/null; echo late; } & echo early"}},
		{Name: "inside", Parameters: schema, HTTP: &fleet.HTTPTool{URL: strings.Replace(s.URL, "127.0.0.1", "localhost", 1)}},
		{Name: "mapped", Parameters: schema, HTTP: &fleet.HTTPTool{URL: strings.Replace(s.URL, "127.0.0.1", "[64:ff9b::7f00:1]", 1)}},
	}
	env := func(c *local.Config) {
		c.Models.Settings.ToolEnv = []string{"WEATHER"}
		c.Environ = environment("WEATHER=tool-secret-1")
	}
	d := newFixture(t, fleet.AgentConfig{Tools: tools, PrivateHosts: []string{"127.0.0.1"}}, env)
	calls := make([]string, len(tools))
	for i, tool := range tools {
		calls[i] = fmt.Sprintf(`{"name":%q,"input":{"city":"Rome"}}`, tool.Name)
	}
	all, o := d.runTask("model: tools [" + strings.Join(calls, ",") + "]\nmodel: say ok")
	require.Equal(t, "ok", o.Summary, o.Reason)
	results := d.results()
	require.Equal(t, "sunny", results[0])
	require.Contains(t, results[1], "418")
	require.JSONEq(t, `{"CITY":"ROME"}`, results[2])
	require.Contains(t, results[3], "exit status 1")
	require.Equal(t, "early\nlate", results[4], "the output of a child after the program's end must be included")
	require.Contains(t, results[5], "not a public address", "the tool must not connect to a host whose address is not public")
	require.Contains(t, results[6], "not a public address")
	require.Equal(t, map[string]string{"/": "Bearer tool-secret-1", "/broken": ""}, tokens, "a tool must send its own headers only")
	require.NotContains(t, fmt.Sprint(all, results), "tool-secret-1")
	require.NotContains(t, fmt.Sprint(all), stubKey)
	offered := d.model.Requests()[0]
	require.Subset(t, offered.ToolNames(), []string{"weather", "broken", "upper", "false"})

	tools[0].HTTP.Headers["X-Key"] = "${ANTHROPIC_API_KEY}" // tools may not use this variable
	e := newFixture(t, fleet.AgentConfig{Tools: tools, PrivateHosts: []string{"127.0.0.1"}}, env)
	_, o = e.runTask("hello")
	requireFailed(t, o, "the variable ANTHROPIC_API_KEY is not set")
}

// TestTeam checks that an agent can delegate a part of its task to a second agent, and that its conversation continues after a
// restart of the server.
func TestTeam(t *testing.T) {
	t.Parallel()
	d := newFixture(t, fleet.AgentConfig{Document: `
models:
  stub: {provider: openai, model: stub-large, base_url: "MODEL/v1"}
agents:
  root: {model: stub, description: Leads., instruction: You lead., sub_agents: [writer]}
  writer: {model: stub, description: Writes., instruction: You write.}
`}, nil)
	d.model.SetAnswer(func(r model.Request) model.Answer {
		if strings.Contains(r.System, "You write.") {
			return model.Answer{Text: "a poem"}
		}
		if len(r.Results()) == 0 {
			return model.Answer{Calls: []model.Call{{Name: "transfer_task", Input: []byte(`{"agent":"writer","task":"write","expected_output":"a poem"}`)}}}
		}
		return model.Answer{Text: "Here: " + r.Results()[0].Text}
	})
	all, o := d.runTask("a poem please")
	require.Equal(t, "Here: a poem", o.Summary, o.Reason)
	require.EqualValues(t, 3*model.InputTokens, o.Usage.InputTokens)
	require.Contains(t, fmt.Sprint(all), "transfer_task: writer")
	require.NoError(t, d.place.Close())
	d.open()
	_, o = d.runTask("again")
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Contains(t, d.lastRequest().Transcript(), "a poem please")
}

// TestAllowance checks that a run that has used its allowance sends no request until the allowance grows.
func TestAllowance(t *testing.T) {
	t.Parallel()
	d := newFixture(t, fleet.AgentConfig{Document: workerDoc + "    toolsets: [{type: todo}]\n"}, func(c *local.Config) {
		c.Models.Settings.Prices = price.NewList(map[string]fleet.Price{"anthropic/stub-large": {Output: 100}}) // 5 cents an answer
	})
	const work = `model: tool create_todo {"description":"work"}` + "\n"
	r := fleet.Run{
		TaskID: uuid.NewString(), Prompt: strings.Repeat(work, 4) + "model: say done", Timeout: waittest.Limit, StartedAt: time.Now(),
		Allowance: fleet.Amount{Micros: 100_000},
	}
	runner := d.place.Connect(d.agent)
	require.NoError(t, runner.Dispatch(t.Context(), r))
	waits := make(chan struct{}, 100)
	sink := func(out fleet.Output) error {
		if strings.Contains(out.Text, "waits until Fleet reserves more") {
			waits <- struct{}{}
		}
		return nil
	}
	ended := make(chan fleet.Outcome)
	go func() {
		o, err := runner.Follow(t.Context(), r, "", sink)
		if err != nil {
			t.Error(err)
		}
		ended <- o
	}()
	for _, most := range []int{2, 4} {
		<-waits
		require.Len(t, d.model.Requests(), most)
		r.Allowance.Micros = fleet.Micros(most+2) * 50_000
		require.NoError(t, fleet.SetAllowance(t.Context(), runner, r))
	}
	o := <-ended
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Len(t, d.model.Requests(), 5)
	require.InDelta(t, 0.25, o.CostUSD, 1e-9)
	require.NoError(t, fleet.SetAllowance(t.Context(), runner, fleet.Run{TaskID: "none"}))

	r = fleet.Run{TaskID: uuid.NewString(), Prompt: work + "model: say done", Timeout: waittest.Limit, StartedAt: time.Now(), Allowance: fleet.Amount{Tokens: 1}}
	require.NoError(t, runner.Dispatch(t.Context(), r))
	go func() {
		<-waits
		if err := runner.Interrupt(t.Context(), r, false); err != nil {
			t.Error(err)
		}
	}()
	o, err := runner.Follow(t.Context(), r, "", sink)
	require.NoError(t, err)
	require.Equal(t, fleet.TaskStopped, o.Status)
	require.Len(t, d.model.Requests(), 6)
}

func TestProvisionErrors(t *testing.T) {
	t.Parallel()
	c := local.Config{Dir: t.TempDir()}
	withProcesses(t, &c)
	p, err := local.New(c)
	require.NoError(t, err)
	b := p.ModelPlace()
	defer func() { require.NoError(t, b.Close()) }()
	for doc, want := range badDocuments() {
		_, err := b.Provision(t.Context(), fleet.Agent{UID: uuid.NewString(), Config: &fleet.AgentConfig{Driver: driver.Cagent, Document: doc}})
		require.Equal(t, fleet.ReasonProvisioningFailed, fleet.ReasonOf(err), "%.60s: %v", doc, err)
		require.ErrorContains(t, err, want)
	}
	all, err := b.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
}

// badDocuments returns invalid definitions, each with a part of the expected error.
func badDocuments() map[string]string {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	wide := "x: &x " + strings.Repeat("y", 50_000) + "\nz:\n" + strings.Repeat("- *x\n", 10_000)
	return map[string]string{
		" \n":                                "empty",
		"just words":                         "not a cagent definition",
		"a\x00b":                             "NUL",
		"agents: {}":                         "no agents",
		"agents: [":                          "not a cagent definition",
		"version: \"0.9\"\nagents: {}":       "unsupported config version",
		bomb:                                 "alias inside an anchored node",
		wide:                                 "aliases expand to more",
		strings.Repeat("[", 100_000):         "nested too deeply",
		strings.Repeat("{a: ", 60_000):       "nested too deeply",
		"a:\n" + strings.Repeat("- ", 1000):  "nested too deeply",
		"a: " + strings.Repeat("x", 300_000): "larger than",
		"agents: {root: {model: nope}}":      "nope",
		"agents: {root: {model: openai/x, sub_agents: [none]}}":      "none",
		"agents: {root: {model: openai/x, handoffs: [none]}}":        "none",
		"agents: {root: {model: openai/x, toolsets: [{type: mcp}]}}": "remote or ref",
	}
}
