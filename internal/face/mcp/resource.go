package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

// maxPayload is the largest payload that can be read as a resource, in bytes.
const maxPayload = 4 << 20

// resources reads the resources of the fleet through the API.
type resources struct {
	api    fleetv1.FleetServiceClient
	rights func(ctx context.Context) (mayCall func(method string) bool)
}

// add adds the resources to the server.
func (f resources) add(s *server.MCPServer) {
	const id = "the id of the task, or its first 6 characters or more"
	f.addJSON(s, "fleet://agent/{name}", "agent", "State of an agent and its workspace", func(ctx context.Context, name string) (proto.Message, error) {
		return f.api.ShowAgent(ctx, &fleetv1.ShowAgentRequest{AgentName: name})
	})
	f.addJSON(s, "fleet://task/{id}", "task", "A task with its result; id is "+id, func(ctx context.Context, id string) (proto.Message, error) {
		return f.api.ShowTask(ctx, &fleetv1.ShowTaskRequest{TaskId: id})
	})
	f.addJSON(s, "fleet://task/{id}/transcript", "transcript", "What the agent of a task has said and done, the newest 200 steps", func(ctx context.Context, id string) (proto.Message, error) {
		return f.api.ListTaskSteps(ctx, &fleetv1.ListTaskStepsRequest{TaskId: id, Before: "end"})
	})
	s.AddResourceTemplate(mcp.NewResourceTemplate("fleet://task/{id}/payload", "payload", mcp.WithTemplateDescription("The whole result of a task")), f.payload)
}

// addJSON adds a template of resources whose content is an answer of the API.
func (f resources) addJSON(s *server.MCPServer, template, name, description string, read func(ctx context.Context, value string) (proto.Message, error)) {
	s.AddResourceTemplate(mcp.NewResourceTemplate(template, name, mcp.WithTemplateDescription(description), mcp.WithTemplateMIMEType("application/json")),
		func(ctx context.Context, q mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			m, err := read(ctx, templateValue(q))
			if err != nil {
				return nil, refuseCall(ctx, resourceError(ctx, q.Params.URI, err))
			}
			b, err := wire.Marshal(m)
			return []mcp.ResourceContents{mcp.TextResourceContents{URI: q.Params.URI, MIMEType: "application/json", Text: string(b)}}, err
		})
}

// templateValue returns the value of the template's only variable. It returns "" if the URI has none, or one that is not valid.
func templateValue(q mcp.ReadResourceRequest) string {
	for _, v := range q.Params.Arguments {
		if values, _ := v.([]string); len(values) == 1 {
			if text, err := url.PathUnescape(values[0]); err == nil {
				return text
			}
		}
	}
	return ""
}

// payload returns the payload of a task: as text if it is UTF-8, else as a blob. A payload that is larger than maxPayload is refused.
func (f resources) payload(ctx context.Context, q mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := f.api.DownloadTaskPayload(ctx, &fleetv1.DownloadTaskPayloadRequest{TaskId: templateValue(q)})
	var all bytes.Buffer
	kind := ""
	for err == nil {
		var part interface {
			GetData() []byte
			GetContentType() string
		}
		if part, err = stream.Recv(); err == nil {
			all.Write(part.GetData())
			if kind == "" {
				kind = part.GetContentType()
			}
		}
		if all.Len() > maxPayload {
			return nil, refuseCall(ctx, &rpcError{Code: mcp.INVALID_PARAMS, Message: fmt.Sprintf("the payload is larger than %d bytes: read it in portions with show_task, or download it", maxPayload)})
		}
	}
	switch {
	case !errors.Is(err, io.EOF):
		return nil, refuseCall(ctx, resourceError(ctx, q.Params.URI, err))
	case utf8.Valid(all.Bytes()):
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: q.Params.URI, MIMEType: kind, Text: all.String()}}, nil
	}
	return []mcp.ResourceContents{mcp.BlobResourceContents{URI: q.Params.URI, MIMEType: kind, Blob: base64.StdEncoding.EncodeToString(all.Bytes())}}, nil
}

// addToList adds agents and the newest tasks that the caller may see to a list of resources, at most maxListed of each. Programs of agents list
// resources when they start. So addToList makes no call that would be refused, because the audit log would record the refusal.
func (f resources) addToList(ctx context.Context, _ any, _ *mcp.ListResourcesRequest, r *mcp.ListResourcesResult) {
	mayCall := f.rights(ctx)
	if !mayCall(fleetv1.FleetService_ListAgents_FullMethodName) || !mayCall(fleetv1.FleetService_ListTasks_FullMethodName) {
		return
	}
	limit := int32(maxListed)
	reader := &factReader{ctx: ctx, api: f.api}
	agents := ask(reader, f.api.ListAgents, &fleetv1.ListAgentsRequest{Limit: &limit}).GetAgents()
	tasks := ask(reader, f.api.ListTasks, &fleetv1.ListTasksRequest{Limit: &limit}).GetTasks()
	caller := ""
	if len(agents) > 0 && mayCall(fleetv1.FleetService_ShowFleet_FullMethodName) {
		caller = ask(reader, f.api.ShowFleet, &fleetv1.ShowFleetRequest{}).GetCaller()
	}
	for _, a := range agents {
		ref := a.GetName()
		if a.GetOwner() != caller {
			ref += "@" + a.GetOwner() // the caller may see agents with this name of several owners
		}
		escaped := strings.ReplaceAll(url.QueryEscape(ref), "+", "%20") // a template's variable has no reserved characters such as @
		r.Resources = append(r.Resources, mcp.NewResource("fleet://agent/"+escaped, "agent "+ref, mcp.WithMIMEType("application/json")))
	}
	for _, t := range tasks {
		r.Resources = append(r.Resources, mcp.NewResource("fleet://task/"+t.GetId(), "task of "+t.GetAgentName(), mcp.WithResourceDescription(promptLine(t.GetDescription())), mcp.WithMIMEType("application/json")))
	}
}
