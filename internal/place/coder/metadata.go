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

// metadataTime limits how long reading a workspace's metadata may take.
const metadataTime = 4 * time.Second

// readMetadata reads the metadata of the workspace's agent into the cache. Errors are only logged, since metadata are
// optional and are read again later.
func (b *Place) readMetadata(ctx context.Context, at *place) {
	items, err := b.askMetadata(ctx, at)
	if err != nil && ctx.Err() == nil {
		b.config.Logger.DebugContext(ctx, "cannot read workspace metadata", "workspace", at.ws.Name, "error", err)
	}
	found := map[string]string{}
	for _, item := range items {
		found[item.Description.Key] = strings.TrimSpace(item.Result.Value)
	}
	b.workspaceFacts.change(at.ws, func(v *workspaceFacts) {
		v.read = b.config.Now()
		if err == nil {
			v.metadata = found
		}
	})
}

func (b *Place) askMetadata(ctx context.Context, at *place) ([]codersdk.WorkspaceAgentMetadata, error) {
	agent, _ := at.agent()
	if agent == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTime)
	defer cancel()
	res, err := at.account.sdk.Request(ctx, http.MethodGet, fmt.Sprintf("/api/v2/workspaceagents/%s/watch-metadata", agent.ID), nil)
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
// only on Coder's answers, so that every caller sees the same metadata.
func (b *Place) metadata(ctx context.Context, at *place) map[string]string {
	found := b.workspaceFacts.of(at.ws).metadata
	if found == nil {
		return nil
	}
	out := map[string]string{}
	for key, item := range b.config.Metadata {
		value := found[item]
		if value == "" {
			value = found[key]
		}
		if value != "" && item != "" {
			out[key] = value
		}
	}
	spec := "" // stays empty if the parameters are unknown
	if u := b.unreadValues(at.ws.LatestBuild.ID); u == nil || u.err == nil {
		_, spec, _ = b.roleAndSpec(ctx, at)
	}
	// Coder truncates metadata, and the parameter has the complete text.
	if spec != "" && strings.HasPrefix(strings.TrimSpace(spec), out[keySpec]) {
		out[keySpec] = spec
	}
	return out
}

// roleAndSpec returns the role and specification from the workspace's parameters. With an error, it may still return
// the specification.
func (b *Place) roleAndSpec(ctx context.Context, at *place) (role, spec string, err error) {
	values, err := b.values(ctx, at.account, at.ws.LatestBuild.ID)
	if err != nil {
		return "", "", err
	}
	v, err := b.knownVersion(ctx, at.ws.LatestBuild.TemplateVersionID)
	if v == nil {
		return "", "", err
	}
	p := &project{Settings: at.Settings}
	if param := p.spec(v); param != nil {
		spec = valueOf(values, param.Name)
	}
	if err != nil && p.role(v) == nil {
		return "", spec, err // the role is unknown without the presets
	}
	return p.roleOf(v, values, at.ws.LatestBuild.TemplateVersionPresetID), spec, nil
}
