//go:build cgo

package tool

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"fleet/internal/model/dial"

	"github.com/docker/cagent/pkg/tools"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpToolset is the toolset of an MCP server. It replaces the library's toolset for two reasons: if the start of that toolset is
// cancelled, the program keeps running; and that toolset calls tools by changed names.
type mcpToolset struct {
	tools.BaseToolSet
	name      string // prefix of the names that the model sees; may be empty
	transport func(ctx context.Context) mcp.Transport
	closeIdle func() // closes idle connections; may be nil

	session *mcp.ClientSession
	end     context.CancelFunc // ends the session
}

// MCPCommand returns the toolset of an MCP server that is a program. name is the prefix of the tools' names, and may be empty.
func MCPCommand(name, command string, args, env []string, dir string) tools.ToolSet {
	return &mcpToolset{name: name, transport: func(ctx context.Context) mcp.Transport {
		cmd := exec.CommandContext(ctx, command, args...)
		cmd.Env, cmd.Dir = env, dir
		killGroupOnCancel(cmd)
		return &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Second}
	}}
}

// MCPRemote returns the toolset of an MCP server at a URL. name is the prefix of the tools' names, and may be empty. kind is "sse"
// for the SSE transport; any other kind means streamable HTTP. The host must be public, or listed in allowedHosts.
func MCPRemote(name, url, kind string, headers map[string]string, allowedHosts ...string) tools.ToolSet {
	base := dial.PublicTransport(allowedHosts...)
	client := &http.Client{
		Transport:     &headerTransport{base, dial.Host(url), headers},
		CheckRedirect: refuseRedirects,
	}
	return &mcpToolset{name: name, closeIdle: base.CloseIdleConnections, transport: func(context.Context) mcp.Transport {
		if kind == "sse" {
			return &mcp.SSEClientTransport{Endpoint: url, HTTPClient: client}
		}
		return &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: client, MaxRetries: -1}
	}}
}

// headerTransport adds headers to requests to one host. The server may refer the client to other hosts, which must not
// receive the headers.
type headerTransport struct {
	base    http.RoundTripper
	host    string
	headers map[string]string
}

// RoundTrip implements http.RoundTripper.
func (h *headerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Hostname() == h.host {
		r = r.Clone(r.Context())
		for k, v := range h.headers {
			r.Header.Set(k, v)
		}
	}
	return h.base.RoundTrip(r)
}

// Start implements tools.ToolSet. If ctx ends during the start, no program and no connection stays open.
func (s *mcpToolset) Start(ctx context.Context) error {
	sessionCtx, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	client := mcp.NewClient(&mcp.Implementation{Name: "fleet", Version: "1"}, nil)
	session, err := client.Connect(sessionCtx, s.transport(sessionCtx), nil)
	if !stop() && err == nil {
		_ = session.Close()
		err = ctx.Err()
	}
	if s.closeIdle != nil {
		cancel := end
		end = func() { cancel(); s.closeIdle() }
	}
	if err != nil {
		end()
		return err
	}
	s.session, s.end = session, end
	return nil
}

// Stop implements tools.ToolSet.
func (s *mcpToolset) Stop(context.Context) error {
	if s.session == nil {
		return nil
	}
	defer s.end()
	return s.session.Close()
}

// Instructions implements tools.ToolSet.
func (s *mcpToolset) Instructions() string {
	if s.session == nil {
		return ""
	}
	return s.session.InitializeResult().Instructions
}

// Tools implements tools.ToolSet.
func (s *mcpToolset) Tools(ctx context.Context) ([]tools.Tool, error) {
	if s.session == nil {
		return nil, errors.New("the MCP server has not started")
	}
	var all []tools.Tool
	for t, err := range s.session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		name := t.Name
		if s.name != "" {
			name = s.name + "_" + name
		}
		tool := tools.Tool{Name: name, Description: t.Description, Parameters: t.InputSchema, OutputSchema: t.OutputSchema, Handler: s.toolHandler(t.Name)}
		if t.Annotations != nil {
			tool.Annotations = tools.ToolAnnotations(*t.Annotations)
		}
		all = append(all, tool)
	}
	return all, nil
}

// toolHandler returns a handler that calls the tool with the server's own name for it. The result has only the texts of the
// server's answer.
func (s *mcpToolset) toolHandler(name string) tools.ToolHandler {
	return func(ctx context.Context, c tools.ToolCall) (*tools.ToolCallResult, error) {
		var args map[string]any
		if err := json.Unmarshal([]byte(c.Function.Arguments), &args); err != nil {
			return tools.ResultError("The arguments are not a JSON object: " + err.Error()), nil
		}
		res, err := s.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			return nil, err
		}
		var texts []string
		for _, part := range res.Content {
			if text, ok := part.(*mcp.TextContent); ok {
				texts = append(texts, text.Text)
			}
		}
		return &tools.ToolCallResult{Output: strings.Join(texts, "\n"), IsError: res.IsError}, nil
	}
}
