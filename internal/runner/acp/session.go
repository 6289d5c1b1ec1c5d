package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/coder/acp-go-sdk"

	"fleet/internal/fleet"
)

// initializeResult is the program's description of itself. It has only the fields that Fleet needs, so that other fields may
// change.
type initializeResult struct {
	Version json.RawMessage `json:"protocolVersion"`
	Agent   struct {
		Name    string `json:"name"`
		Title   string `json:"title"`
		Version string `json:"version"`
	} `json:"agentInfo"`
	Capabilities struct {
		Load bool `json:"loadSession"`
		MCP  struct {
			HTTP bool `json:"http"`
			SSE  bool `json:"sse"`
		} `json:"mcpCapabilities"`
		Session struct {
			Resume *struct{} `json:"resume"`
		} `json:"sessionCapabilities"`
	} `json:"agentCapabilities"`
	Logins []struct {
		ID   string                     `json:"id"`
		Name string                     `json:"name"`
		Meta map[string]json.RawMessage `json:"_meta"`
	} `json:"authMethods"`
}

// initialize asks the program for its description. It returns an error if the program does not speak Fleet's version of the
// protocol.
func (c *client) initialize(ctx context.Context) (initializeResult, error) {
	title := "Fleet"
	info, err := request[initializeResult](ctx, c, startTimeout, acp.AgentMethodInitialize, acp.InitializeRequest{
		ProtocolVersion: acp.ProtocolVersionNumber, ClientInfo: &acp.Implementation{Name: "fleet", Title: &title, Version: fleetVersion()},
	})
	if err != nil {
		if r, ok := errors.AsType[*acp.RequestError](err); ok {
			err = fmt.Errorf("%s refused the Agent Client Protocol, version %d: %s%s", c.programName(), acp.ProtocolVersionNumber, errorText(r), c.testedVersionSuffix())
		}
		return info, err
	}
	c.reportedName, c.version, c.meta = info.Agent.Name, info.Agent.Version, c.job.claudeMeta(info.Agent.Name)
	if version := strings.TrimSpace(string(info.Version)); version != fmt.Sprint(acp.ProtocolVersionNumber) {
		if version == "" {
			version = "an unknown version"
		} else {
			version = "version " + version
		}
		return info, fmt.Errorf("this version of %s speaks %s of the Agent Client Protocol, but Fleet speaks version %d%s",
			c.programName(), version, acp.ProtocolVersionNumber, c.testedVersionSuffix())
	}
	c.out.write(Line{Type: LineAgent, Name: cmp.Or(info.Agent.Title, info.Agent.Name), Version: info.Agent.Version})
	return info, nil
}

func fleetVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// sessionInfo is the program's description of a session, when it has started or continued the session.
type sessionInfo struct {
	Session string `json:"sessionId"`
	Models  *struct {
		Current   string `json:"currentModelId"`
		Available []struct {
			ID string `json:"modelId"`
		} `json:"availableModels"`
	} `json:"models"`
	Modes *struct {
		Available []struct {
			ID string `json:"id"`
		} `json:"availableModes"`
	} `json:"modes"`
	Options []struct {
		ID       string            `json:"id"`
		Category string            `json:"category"`
		Current  json.RawMessage   `json:"currentValue"` // a text, unless the option is of another type
		Options  []json.RawMessage `json:"options"`
	} `json:"configOptions"`
}

// model returns the model of the session, or an empty text if it is unknown.
func (s sessionInfo) model() (model string) {
	if s.Models != nil {
		model = s.Models.Current
	}
	for _, o := range s.Options {
		if o.Category == "model" {
			_ = json.Unmarshal(o.Current, &model)
		}
	}
	return model
}

// startSession continues the session of the job, or starts a new session if the job has none or the program cannot continue it.
// resumed reports whether it has continued the session.
func (c *client) startSession(ctx context.Context, info initializeResult) (resumed bool, err error) {
	servers, err := c.servers(info)
	if err != nil {
		return false, err
	}
	var s sessionInfo
	lostReason := ""
	if c.job.Session != "" {
		s, err = c.resume(ctx, info, servers)
		r, refused := errors.AsType[*acp.RequestError](err)
		switch {
		case err == nil:
			s.Session, resumed = c.job.Session, true
		case refused && r.Code != authRequired:
			lostReason = errorText(r)
		default:
			return false, err
		}
	}
	if !resumed {
		params := acp.NewSessionRequest{Meta: c.meta, Cwd: c.dir, McpServers: servers}
		s, err = withLogin(ctx, c, info, func() (sessionInfo, error) {
			return request[sessionInfo](ctx, c, requestTimeout, acp.AgentMethodSessionNew, params)
		})
		if err != nil {
			return false, c.wrapError("cannot start a session", err)
		}
		if s.Session == "" {
			return false, fmt.Errorf("%s started a session without an id%s", c.programName(), c.testedVersionSuffix())
		}
	}
	c.session = s.Session
	c.out.write(Line{Type: LineSession, Session: s.Session, Resumed: resumed, Model: s.model(), Text: lostReason})
	if err := c.setOption(ctx, s, "model", c.job.Model); err != nil {
		return false, err
	}
	return resumed, c.setOption(ctx, s, "mode", c.job.Mode)
}

var errNoResume = &acp.RequestError{Code: -32601, Message: "the program cannot continue sessions"}

// resume waits until NotBefore, and continues the session of the job. Meanwhile the client ignores the history that the program
// repeats.
func (c *client) resume(ctx context.Context, info initializeResult, servers []acp.McpServer) (sessionInfo, error) {
	select {
	case <-time.After(time.Until(c.job.NotBefore)):
	case <-ctx.Done():
		return sessionInfo{}, ctx.Err()
	}
	c.setReplaying(true)
	defer c.setReplaying(false)
	id := acp.SessionId(c.job.Session)
	return withLogin(ctx, c, info, func() (sessionInfo, error) {
		switch {
		case info.Capabilities.Session.Resume != nil:
			return request[sessionInfo](ctx, c, requestTimeout, acp.AgentMethodSessionResume, acp.ResumeSessionRequest{Meta: c.meta, SessionId: id, Cwd: c.dir, McpServers: servers})
		case info.Capabilities.Load:
			s, err := request[sessionInfo](ctx, c, requestTimeout, acp.AgentMethodSessionLoad, acp.LoadSessionRequest{Meta: c.meta, SessionId: id, Cwd: c.dir, McpServers: servers})
			if err == nil {
				c.waitForHistory(ctx)
			}
			return s, err
		}
		return sessionInfo{}, errNoResume
	})
}

// historyPause is how long a program may pause while it repeats the history of a session. After a longer pause, the history counts
// as complete. Some programs send a part of the history after their answer.
const historyPause = 300 * time.Millisecond

// historyTicks is the number of ticks in historyPause. A pause is counted in ticks, so that it does not pass while this process is
// too slow to read.
const historyTicks = 10

// waitForHistory waits until the program has repeated the history of the session, for at most requestTimeout.
func (c *client) waitForHistory(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	tick := time.NewTicker(historyPause / historyTicks) // it drops ticks while nobody receives them
	defer tick.Stop()
	lastCount := -1
	for quietTicks := 0; quietTicks <= historyTicks; quietTicks++ {
		c.mu.Lock()
		count := c.ignoredUpdates
		c.mu.Unlock()
		if count != lastCount {
			lastCount, quietTicks = count, 0
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *client) setReplaying(replaying bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replaying = replaying
}

// authRequired is the error code of a program that requires a login.
const authRequired = -32000

// withLogin calls f. If the program requires a login, withLogin requests a login with the API key in the program's
// environment, and calls f again.
func withLogin[T any](ctx context.Context, c *client, info initializeResult, f func() (T, error)) (T, error) {
	v, err := f()
	r, refused := errors.AsType[*acp.RequestError](err)
	if !refused || r.Code != authRequired {
		return v, err
	}
	var names []string
	for _, login := range info.Logins {
		names = append(names, login.Name)
		if _, needsKey := login.Meta["api-key"]; !needsKey && !strings.HasSuffix(login.ID, "api-key") {
			continue
		}
		if _, err := request[json.RawMessage](ctx, c, requestTimeout, acp.AgentMethodAuthenticate, acp.AuthenticateRequest{MethodId: login.ID}); err == nil {
			return f()
		}
	}
	return v, codedError{fmt.Errorf("%s is not logged in (%s): log in as the server's user, or give the agents its API key in the project's env or pass_env; it offers the logins %s",
		c.programName(), errorText(r), strings.Join(names, ", ")), fleet.CodeAuth}
}

// setOption sets the session's model or mode to the value, unless the value is empty; category is "model" or "mode". It prefers
// configuration options, which are the newer method.
func (c *client) setOption(ctx context.Context, s sessionInfo, category, value string) error {
	if value == "" {
		return nil
	}
	id := acp.SessionId(c.session)
	var choices []string
	var method string
	var params any
	for _, o := range s.Options {
		if o.Category == category {
			choices = optionValues(o.Options)
			method, params = acp.AgentMethodSessionSetConfigOption, map[string]any{"sessionId": id, "configId": o.ID, "value": value}
		}
	}
	switch {
	case method != "":
	case category == "model" && s.Models != nil:
		for _, m := range s.Models.Available {
			choices = append(choices, m.ID)
		}
		method, params = acp.AgentMethodSessionSetModel, map[string]any{"sessionId": id, "modelId": value}
	case category == "mode" && s.Modes != nil:
		for _, m := range s.Modes.Available {
			choices = append(choices, m.ID)
		}
		method, params = acp.AgentMethodSessionSetMode, map[string]any{"sessionId": id, "modeId": value}
	}
	if category == "mode" && value == AcceptEdits && !slices.Contains(choices, value) {
		return nil // Policy.Edits has the same effect
	}
	if method == "" {
		return fmt.Errorf("%s does not support choosing its %s: remove %q from the role", c.programName(), category, value)
	}
	if !slices.Contains(choices, value) {
		return fmt.Errorf("%s has no %s %q: it has %s", c.programName(), category, value, strings.Join(choices, ", "))
	}
	if _, err := request[json.RawMessage](ctx, c, requestTimeout, method, params); err != nil {
		return c.wrapError("its "+category+" could not be set to "+value, err)
	}
	return nil
}

// AcceptEdits is Claude Code's name for the mode in which the program may change files without asking.
const AcceptEdits = "acceptEdits"

// optionValues returns the values of the options, including the options in groups.
func optionValues(options []json.RawMessage) (all []string) {
	for _, raw := range options {
		var o struct {
			Value   string            `json:"value"`
			Options []json.RawMessage `json:"options"`
		}
		if json.Unmarshal(raw, &o) != nil {
			continue
		}
		if o.Value != "" {
			all = append(all, o.Value)
		}
		all = append(all, optionValues(o.Options)...)
	}
	return all
}

// servers returns the MCP servers in the protocol's format.
func (c *client) servers(info initializeResult) ([]acp.McpServer, error) {
	all := []acp.McpServer{} // the protocol requires a list
	for _, s := range c.job.Servers {
		headers := []acp.HttpHeader{}
		for _, k := range slices.Sorted(maps.Keys(s.Headers)) {
			headers = append(headers, acp.HttpHeader{Name: k, Value: s.Headers[k]})
		}
		switch s.Type {
		case "http":
			if !info.Capabilities.MCP.HTTP {
				return nil, fmt.Errorf("%s does not support MCP servers over HTTP, such as %q: remove it from the role", c.programName(), s.Name)
			}
			all = append(all, acp.McpServer{Http: &acp.McpServerHttpInline{Type: "http", Name: s.Name, Url: s.URL, Headers: headers}})
		case "sse":
			if !info.Capabilities.MCP.SSE {
				return nil, fmt.Errorf("%s does not support MCP servers over SSE, such as %q: remove it from the role", c.programName(), s.Name)
			}
			all = append(all, acp.McpServer{Sse: &acp.McpServerSseInline{Type: "sse", Name: s.Name, Url: s.URL, Headers: headers}})
		default:
			env := []acp.EnvVariable{}
			for _, k := range slices.Sorted(maps.Keys(s.Env)) {
				env = append(env, acp.EnvVariable{Name: k, Value: s.Env[k]})
			}
			all = append(all, acp.McpServer{Stdio: &acp.McpServerStdio{Name: s.Name, Command: s.Command, Args: append([]string{}, s.Args...), Env: env}})
		}
	}
	return all, nil
}
