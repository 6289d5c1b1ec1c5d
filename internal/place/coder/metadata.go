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
func (p *Place) readMetadata(ctx context.Context, at *workspace) {
	items, err := p.askMetadata(ctx, at)
	if err != nil && ctx.Err() == nil {
		p.config.Logger.DebugContext(ctx, "cannot read workspace metadata", "workspace", at.ws.Name, "error", err)
	}
	found := map[string]string{}
	for _, item := range items {
		found[item.Description.Key] = strings.TrimSpace(item.Result.Value)
	}
	p.workspaceFacts.change(at.ws, func(v *workspaceFacts) {
		v.read = p.config.Now()
		if err == nil {
			v.metadata = found
		}
	})
}

func (p *Place) askMetadata(ctx context.Context, at *workspace) ([]codersdk.WorkspaceAgentMetadata, error) {
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
func (p *Place) metadata(ctx context.Context, at *workspace) map[string]string {
	found := p.workspaceFacts.of(at.ws).metadata
	if found == nil {
		return nil
	}
	out := map[string]string{}
	for key, item := range p.config.Metadata {
		value := found[item]
		if value == "" {
			value = found[key]
		}
		if value != "" && item != "" {
			out[key] = value
		}
	}
	spec := "" // stays empty if the parameters are unknown
	if u := p.unreadValues(at.ws.LatestBuild.ID); u == nil || u.err == nil {
		_, spec, _ = p.roleAndSpec(ctx, at)
	}
	// Coder truncates metadata, and the parameter has the complete text.
	if spec != "" && strings.HasPrefix(strings.TrimSpace(spec), out[keySpec]) {
		out[keySpec] = spec
	}
	return out
}

// roleAndSpec returns the role and specification from the workspace's parameters. With an error, it may still return
// the specification.
func (p *Place) roleAndSpec(ctx context.Context, at *workspace) (role, spec string, err error) {
	values, err := p.values(ctx, at.account, at.ws.LatestBuild.ID)
	if err != nil {
		return "", "", err
	}
	v, err := p.knownVersion(ctx, at.ws.LatestBuild.TemplateVersionID)
	if v == nil {
		return "", "", err
	}
	proj := &project{Settings: at.Settings}
	if param := proj.spec(v); param != nil {
		spec = valueOf(values, param.Name)
	}
	if err != nil && proj.role(v) == nil {
		return "", spec, err // the role is unknown without the presets
	}
	return proj.roleOf(v, values, at.ws.LatestBuild.TemplateVersionPresetID), spec, nil
}
