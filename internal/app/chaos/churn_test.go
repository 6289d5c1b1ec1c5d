package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/place/fake"
)

// churnPrefix is the beginning of the names of agents that are created and deleted while faults happen.
const churnPrefix = "new-"

// agentRecord is what callers learned from the answers about an agent that they created.
type agentRecord struct {
	created, deleted  bool // acknowledged
	refused           bool // it is certain that it was not created
	deletionRequested bool // it may not have been answered
}

// messageRecord is what a caller learned about a message that it sent.
type messageRecord struct {
	agent    string
	task     string // the task that received the message, if the message was accepted
	accepted bool
	refused  bool // it is certain that it was not accepted
}

// sharedPrefix is a part of the names of agents in the place that all servers share.
const sharedPrefix = "shared-"

func (f *fleetUnderLoad) isShared(agent string) bool {
	return strings.HasPrefix(strings.TrimPrefix(agent, churnPrefix), sharedPrefix)
}

// churnAgents is a caller that creates agents, lets them work and deletes them, until ctx is done. It deletes most agents after a
// short pause, and the others when the server refuses to create more.
func (f *fleetUnderLoad) churnAgents(ctx context.Context, client int, r *rand.Rand) {
	h := f.history
	var kept []string
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("%s%d-%d", churnPrefix, client, n)
		if n%2 == 0 {
			name = fmt.Sprintf("%s%s%d-%d", churnPrefix, sharedPrefix, client, n)
		}
		record := &agentRecord{}
		h.mu.Lock()
		h.agents[name] = record
		h.mu.Unlock()
		f.createAgent(name, record, r)
		if record.refused { // the disk is full, or there are too many agents
			pause(ctx, time.Duration(r.IntN(500))*time.Millisecond)
			if len(kept) > 0 {
				f.deleteAgent(kept[0], h.recordOf(kept[0]), r)
				kept = kept[1:]
			}
			continue
		}
		f.startTask(client, name, r)
		pause(ctx, time.Duration(r.IntN(800))*time.Millisecond)
		if r.IntN(4) > 0 {
			f.deleteAgent(name, record, r)
		} else {
			kept = append(kept, name)
		}
	}
}

// recordOf returns what callers learned about the agent.
func (h *history) recordOf(agent string) *agentRecord {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.agents[agent]
}

// maxTries is the maximum number of tries of a call with an unknown outcome.
const maxTries = 5

// createAgent tries to create the agent, and records the outcome in record.
func (f *fleetUnderLoad) createAgent(name string, record *agentRecord, r *rand.Rand) {
	project := "shell"
	if f.isShared(name) {
		project = fake.DefaultProjects()[0].Name
	}
	request := &fleetv1.CreateAgentRequest{Name: name, Project: project, Spec: "x", RequestId: name}
	for try := 1; try <= maxTries; try++ {
		err := f.call(r, "CreateAgent", request, &fleetv1.CreateAgentResponse{})
		switch reason := reasonOf(err); {
		case err == nil:
			record.created = true
			return
		case reason == "AGENT_EXISTS":
			f.history.addProblem("%s was created only once, but the server says that it already exists", name)
			return
		case reason != "":
			record.refused = try == 1
			return
		}
	}
}

// sendMessage sends a message to the agent's task, and records the outcome.
func (f *fleetUnderLoad) sendMessage(agent string, r *rand.Rand) {
	text := f.newTag("m") + " for " + agent
	m := &messageRecord{agent: agent}
	f.history.mu.Lock()
	f.history.messages[text] = m
	f.history.mu.Unlock()
	request := &fleetv1.SendTaskMessageRequest{AgentName: agent, Message: text, RequestId: text}
	for try := 1; try <= maxTries; try++ {
		answer := &fleetv1.SendTaskMessageResponse{}
		err := f.call(r, "SendTaskMessage", request, answer)
		if err != nil && reasonOf(err) == "" {
			continue
		}
		m.task, m.accepted, m.refused = answer.GetTask().GetId(), err == nil, err != nil && try == 1
		return
	}
}

// deleteAgent tries to delete the agent, and then checks that it no longer exists.
func (f *fleetUnderLoad) deleteAgent(name string, record *agentRecord, r *rand.Rand) {
	record.deletionRequested = true
	for try := 1; try <= maxTries && !record.deleted; try++ {
		err := f.call(r, "DeleteAgent", &fleetv1.DeleteAgentRequest{AgentName: name, RequestId: "delete " + name}, &fleetv1.DeleteAgentResponse{})
		reason := reasonOf(err)
		switch {
		case reason == "AGENT_NOT_FOUND" && record.created && try == 1:
			f.history.addProblem("%s was created, and is not there to be deleted", name)
			return
		case reason != "" && reason != "AGENT_NOT_FOUND":
			return
		}
		record.deleted = err == nil
	}
	if !record.deleted {
		return
	}
	// The answer may arrive before the end of the deletion, so ShowAgent may still find the agent for a moment. After
	// it has reported once that the agent does not exist, it must not find the agent again.
	gone := false
	for range 3 {
		err := f.call(r, "ShowAgent", &fleetv1.ShowAgentRequest{AgentName: name}, &fleetv1.ShowAgentResponse{})
		switch {
		case reasonOf(err) == "AGENT_NOT_FOUND":
			gone = true
		case err == nil && gone:
			f.history.addProblem("%s was deleted and gone, and is there again", name)
		}
	}
}
