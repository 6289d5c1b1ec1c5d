//go:build cgo

package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/docker/cagent/pkg/config/latest"
	"github.com/docker/cagent/pkg/teamloader"
	"github.com/docker/cagent/pkg/tools"

	"fleet/internal/fleet"
	"fleet/internal/model/dial"
	"fleet/internal/runner/process"
	"fleet/internal/schema"
)

// scriptTools is a toolset of scripts that accept only declared arguments. The library passes arguments as environment
// variables, so without this check a model could set PATH.
type scriptTools struct {
	tools.ToolSet
	scripts map[string]latest.ScriptShellToolConfig
}

// NewScripts returns the toolset s of the scripts, restricted to their declared arguments.
func NewScripts(s tools.ToolSet, scripts map[string]latest.ScriptShellToolConfig) tools.ToolSet {
	return &scriptTools{s, scripts}
}

// Tools implements tools.ToolSet.
func (d *scriptTools) Tools(ctx context.Context) ([]tools.Tool, error) {
	all, err := d.ToolSet.Tools(ctx)
	for i, t := range all {
		all[i].Handler = func(ctx context.Context, c tools.ToolCall) (*tools.ToolCallResult, error) {
			var args map[string]any
			if err := json.Unmarshal([]byte(c.Function.Arguments), &args); err != nil {
				return tools.ResultError("The arguments are not a JSON object: " + err.Error()), nil
			}
			for name := range args {
				if _, ok := d.scripts[t.Name].Args[name]; !ok {
					return tools.ResultError(fmt.Sprintf("There is no argument %q.", name)), nil
				}
			}
			return t.Handler(ctx, c)
		}
	}
	return all, err
}

// reporter is the tool with which an agent reports its result and ends its task.
type reporter struct {
	tools.BaseToolSet
	uid    string // the agent's
	report func(summary string, payload []byte)
}

// NewReporter returns the tool with which the agent with the uid reports its result. It calls report.
func NewReporter(uid string, report func(summary string, payload []byte)) tools.ToolSet {
	return &reporter{uid: uid, report: report}
}

// reportTool is the name of the reporter's tool.
const reportTool = "agent_complete"

// Instructions implements tools.ToolSet.
func (reporter) Instructions() string {
	return "When your task is done, call the tool " + reportTool + ". It ends your work at once: nobody reads what you write after the call."
}

// Tools implements tools.ToolSet.
func (t *reporter) Tools(context.Context) ([]tools.Tool, error) {
	return []tools.Tool{{
		Name:        reportTool,
		Description: "Reports that your task is done, with its result, and ends your work.",
		Parameters: map[string]any{
			"type": "object", "required": []string{"summary"},
			"properties": map[string]any{
				"summary": map[string]any{"type": "string", "description": "What was done and what came of it, in a few sentences."},
				"payload": map[string]any{"type": "string", "description": "The full result, if there is more than the summary."},
				"agent_id": map[string]any{
					"type": "string", "description": "Your own id. It may be left out.",
				},
			},
		},
		Handler: func(_ context.Context, c tools.ToolCall) (*tools.ToolCallResult, error) {
			var in struct {
				Summary string          `json:"summary"`
				Payload json.RawMessage `json:"payload"`
				AgentID string          `json:"agent_id"`
			}
			err := json.Unmarshal([]byte(c.Function.Arguments), &in)
			switch {
			case err != nil:
				return tools.ResultError("The arguments do not match the tool's parameters: " + err.Error()), nil
			case strings.TrimSpace(in.Summary) == "":
				return tools.ResultError("summary is required: say what was done."), nil
			case in.AgentID != "" && in.AgentID != t.uid:
				return tools.ResultError("agent_id is not yours: your id is " + t.uid + "."), nil
			}
			t.report(in.Summary, payload(in.Payload))
			return tools.ResultSuccess("Your report was received. Your work has ended."), nil
		},
	}}, nil
}

// payload returns the text of a JSON string, nil for null, and any other JSON value unchanged.
func payload(raw json.RawMessage) []byte {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return []byte(s)
	}
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// Registry is a toolset of tools that were added one by one.
type Registry struct {
	tools.BaseToolSet
	all []tools.Tool
}

// Add adds a tool.
func (r *Registry) Add(t fleet.Tool, h tools.ToolHandler) {
	var parameters any
	if json.Unmarshal(t.Parameters, &parameters) != nil || parameters == nil {
		parameters = map[string]any{"type": "object", "properties": map[string]any{}}
	}
	r.all = append(r.all, tools.Tool{Name: t.Name, Description: t.Description, Parameters: parameters, Handler: checkArguments(parameters, h)})
}

// checkArguments returns a handler that calls h only with arguments that match the parameters.
func checkArguments(parameters any, h tools.ToolHandler) tools.ToolHandler {
	text, err := json.Marshal(parameters)
	if err != nil {
		return h
	}
	s, err := schema.Compile(text)
	if err != nil {
		return h // of an MCP server; the parameters of other tools were checked when they were registered
	}
	return func(ctx context.Context, c tools.ToolCall) (*tools.ToolCallResult, error) {
		if problems := s.Check(json.RawMessage(c.Function.Arguments)); problems != nil {
			return tools.ResultError("The arguments do not match the tool's parameters: " + strings.Join(problems, "; ")), nil
		}
		return h(ctx, c)
	}
}

// Tools implements tools.ToolSet.
func (r *Registry) Tools(context.Context) ([]tools.Tool, error) { return slices.Clone(r.all), nil }

// renamedTool is one tool of an MCP server under its registered name.
type renamedTool struct {
	tools.ToolSet
	remote string
	as     fleet.Tool
}

// NewRenamed returns the tool remote of the MCP server s as the registered tool as.
func NewRenamed(s tools.ToolSet, remote string, as fleet.Tool) tools.ToolSet {
	return &renamedTool{teamloader.WithToolsFilter(s, remote), remote, as}
}

// Tools implements tools.ToolSet.
func (r *renamedTool) Tools(ctx context.Context) ([]tools.Tool, error) {
	all, err := r.ToolSet.Tools(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the MCP server has no tool %q", r.remote)
	}
	t := all[0]
	t.Name = r.as.Name
	if r.as.Description != "" {
		t.Description = r.as.Description
	}
	t.Handler = checkArguments(t.Parameters, t.Handler)
	return []tools.Tool{t}, nil
}

// HTTP returns a handler that sends the arguments to the URL, by POST unless the tool names another method, and
// returns the body of the answer. The host must be public, or listed in inside.
func HTTP(t *fleet.HTTPTool, headers map[string]string, limit int, inside ...string) tools.ToolHandler {
	method := t.Method
	if method == "" {
		method = http.MethodPost
	}
	base := dial.Public(inside...)
	base.DisableKeepAlives = true
	client := &http.Client{
		Transport:     base,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // headers may hold secrets
	}
	return func(ctx context.Context, c tools.ToolCall) (*tools.ToolCallResult, error) {
		q, err := http.NewRequestWithContext(ctx, method, t.URL, strings.NewReader(c.Function.Arguments))
		if err != nil {
			return nil, err
		}
		q.Header.Set("Content-Type", "application/json")
		for k, v := range headers {
			q.Header.Set(k, v)
		}
		res, err := client.Do(q)
		if err != nil {
			return nil, err
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(io.LimitReader(res.Body, int64(limit)+1))
		if err != nil {
			return nil, err
		}
		if res.StatusCode >= http.StatusMultipleChoices {
			return tools.ResultError(fmt.Sprintf("The endpoint answered %s: %s", res.Status, body)), nil
		}
		return tools.ResultSuccess(string(body)), nil
	}
}

// childGrace is how long child processes of a tool's program may continue to print after the program has ended.
const childGrace = time.Minute

// Command returns a handler that runs a program with the arguments on its standard input. The result is the
// standard output of the program and its child processes.
func Command(argv []string, dir string, env []string, limit int) tools.ToolHandler {
	return func(ctx context.Context, c tools.ToolCall) (*tools.ToolCallResult, error) {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir, cmd.Env, cmd.Stdin = dir, env, strings.NewReader(c.Function.Arguments)
		out, stderr := &process.Head{Max: limit + 1}, &process.Head{Max: 4 << 10}
		cmd.Stdout, cmd.Stderr = out, stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // also kills its children
		cmd.WaitDelay = time.Second                                                          // if the program does not read its input
		err := process.Run(ctx, cmd, childGrace)
		if ctx.Err() != nil {
			if cmd.Process != nil {
				_ = cmd.Cancel() // kills child processes that still run
			}
			return nil, ctx.Err()
		}
		if err != nil {
			return tools.ResultError(strings.TrimSpace(fmt.Sprintf("The command failed: %v\n%s\n%s", err, stderr, out))), nil
		}
		return tools.ResultSuccess(out.String()), nil
	}
}
