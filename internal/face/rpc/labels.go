package rpc

import (
	"context"
	"maps"

	"google.golang.org/protobuf/types/known/structpb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// SetLabels changes labels of an agent or a task.
func (f *Fleet) SetLabels(ctx context.Context, r *fleetv1.SetLabelsRequest) (*fleetv1.SetLabelsResponse, error) {
	agent, labels, err := f.svc.SetLabels(ctx, service.SetLabelsRequest{
		Agent: r.GetAgentName(), TaskID: r.GetTaskId(), Labels: labelsIn(r.GetLabels()), Remove: r.GetRemove(), RequestID: r.GetRequestId(),
	})
	if err != nil {
		return nil, err
	}
	what := "Agent '" + agent + "'"
	if r.GetTaskId() != "" {
		what = "The task of agent '" + agent + "'"
	}
	message := what + " has no labels"
	if len(labels) > 0 {
		message = what + " has the labels " + labels.String()
	}
	return &fleetv1.SetLabelsResponse{Message: message, Labels: maps.Clone(labels)}, nil
}

func labelsIn(m map[string]string) fleet.Labels {
	if len(m) == 0 {
		return nil
	}
	return m
}

// labelsOf returns nil, which responses leave out, if there are no labels.
func labelsOf(l fleet.Labels) *structpb.Struct {
	if len(l) == 0 {
		return nil
	}
	out := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(l))}
	for key, value := range l {
		out.Fields[key] = structpb.NewStringValue(value)
	}
	return out
}
