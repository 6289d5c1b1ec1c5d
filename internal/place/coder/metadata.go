package coder

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/runner/agentapi"
)

// metadataTimeout limits how long reading a workspace's metadata may take.
const metadataTimeout = 4 * time.Second

// readMetadata reads the metadata of the workspace's agent into the cache. Errors are only logged, since metadata are
// optional and are read again later.
func (p *Place) readMetadata(ctx context.Context, w *workspace) {
	items, err := p.requestMetadata(ctx, w)
	if err != nil && ctx.Err() == nil {
		p.config.Logger.DebugContext(ctx, "cannot read workspace metadata", "workspace", w.ws.Name, "error", err)
	}
	values := map[string]string{}
	for _, item := range items {
		values[item.Description.Key] = strings.TrimSpace(item.Result.Value)
	}
	p.factCache.update(w.ws, func(v *workspaceFacts) {
		v.metadataReadAt = p.config.Now()
		if err == nil {
			v.metadata = values
		}
	})
}

// requestMetadata requests the current metadata of the workspace's agent. It returns nil if there is no agent.
func (p *Place) requestMetadata(ctx context.Context, w *workspace) ([]codersdk.WorkspaceAgentMetadata, error) {
	wsAgent, _ := w.appAgent()
	if wsAgent == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	res, err := w.account.sdk.Request(ctx, http.MethodGet, fmt.Sprintf("/api/v2/workspaceagents/%s/watch-metadata", wsAgent.ID), nil)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, codersdk.ReadBodyAsError(res)
	}
	defer func() { _ = res.Body.Close() }()
	r := bufio.NewReader(res.Body)
	for {
		name, data, err := agentapi.ReadEvent(r)
		if err != nil {
			return nil, err
		}
		if name != string(codersdk.ServerSentEventTypeData) {
			continue
		}
		var items []codersdk.WorkspaceAgentMetadata
		return items, json.Unmarshal(data, &items)
	}
}

// metadata returns the cached metadata of the agent under Fleet's keys, or nil if none are cached. The result depends
// only on Coder's responses, so that every caller sees the same metadata.
func (p *Place) metadata(ctx context.Context, w *workspace) map[string]string {
	values := p.factCache.get(w.ws).metadata
	if values == nil {
		return nil
	}
	out := map[string]string{}
	for key, item := range p.config.Metadata {
		value := values[item]
		if value == "" {
			value = values[key]
		}
		if value != "" && item != "" {
			out[key] = value
		}
	}
	spec := "" // stays empty if the parameters could not be read
	if failure, lacks := p.factCache.lacksParameters(w.ws.LatestBuild.ID); !lacks || failure.err == nil {
		_, spec, _ = p.roleAndSpec(ctx, w)
	}
	// Coder truncates metadata, but the parameter has the complete text.
	if spec != "" && strings.HasPrefix(strings.TrimSpace(spec), out[specMetadataKey]) {
		out[specMetadataKey] = spec
	}
	return out
}
