package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// prefix is how the names of the workspaces of the bench begin: those that the test bed's script makes, and the agents.
const prefix = "bulk-"

// coder is the deployment, asked without Fleet.
type coder struct {
	url, token, user string
	mcp              *client.Client
}

func newCoder(ctx context.Context, url, token string) (*coder, error) {
	if url == "" || token == "" {
		return nil, errors.New("CODER_URL and CODER_SESSION_TOKEN are needed: testdata/coder-testbed/env.sh prints them")
	}
	c := &coder{url: url, token: token}
	var me struct{ Username string }
	data, err := c.get(ctx, "/api/v2/users/me")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &me); err != nil {
		return nil, err
	}
	c.user = me.Username
	headers := map[string]string{"Coder-Session-Token": token}
	c.mcp, err = dialMCP(ctx, url+"/api/experimental/mcp/http", transport.WithHTTPHeaders(headers))
	return c, err
}

func dialMCP(ctx context.Context, url string, o ...transport.StreamableHTTPCOption) (*client.Client, error) {
	c, err := client.NewStreamableHttpClient(url, o...)
	if err != nil {
		return nil, err
	}
	if err := c.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	r := mcp.InitializeRequest{}
	r.Params.ProtocolVersion, r.Params.ClientInfo = "2025-06-18", mcp.Implementation{Name: "benchcoder", Version: "1"}
	_, err = c.Initialize(ctx, r)
	return c, err
}

func (c *coder) get(ctx context.Context, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Coder-Session-Token", c.token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("coder answers %s with %s", path, res.Status)
	}
	return data, err
}

// count is how many workspaces of the bench there are.
func (c *coder) count(ctx context.Context) (n int, err error) {
	data, err := c.get(ctx, "/api/v2/workspaces?q=owner:me")
	if err != nil {
		return 0, err
	}
	var all struct{ Workspaces []struct{ Name string } }
	if err := json.Unmarshal(data, &all); err != nil {
		return 0, err
	}
	for _, ws := range all.Workspaces {
		if strings.HasPrefix(ws.Name, prefix) {
			n++
		}
	}
	return n, nil
}

func (c *coder) list(ctx context.Context) (int, error) {
	data, err := c.get(ctx, "/api/v2/workspaces?q=owner:me")
	return len(data), err
}

func (c *coder) tool(ctx context.Context) (int, error) {
	return callTool(ctx, c.mcp, "coder_list_workspaces", map[string]any{"owner": "me"})
}

func callTool(ctx context.Context, c *client.Client, name string, args map[string]any) (int, error) {
	r := mcp.CallToolRequest{}
	r.Params.Name, r.Params.Arguments = name, args
	result, err := c.CallTool(ctx, r)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, part := range result.Content {
		if text, ok := mcp.AsTextContent(part); ok {
			n += len(text.Text)
			if result.IsError {
				return 0, fmt.Errorf("the tool %s failed: %s", name, text.Text)
			}
		}
	}
	return n, nil
}
