package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/place/fake"
)

// churnPrefix is the beginning of the names of agents that are created and deleted while faults happen.
const churnPrefix = "new-"

// life is what callers were told about an agent that they created.
type life struct {
	created, deleted bool // acknowledged
	refused          bool // it is certain that it was not created
	deleting         bool // a deletion was asked for, perhaps without an answer
}

// sent is a message to a task.
type sent struct {
	agent, task string
	accepted    bool
}

// isShared reports whether the agent is in the place that all servers share.
func (f *fleetUnder) isShared(agent string) bool {
	return f.shared[agent] || strings.HasPrefix(agent, churnPrefix) && f.servers[0].shared != ""
}

// churn is a caller that creates agents, lets them work, sends them messages and deletes them, until ctx is done.
func (f *fleetUnder) churn(ctx context.Context, client int, r *rand.Rand) {
	h := f.history
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("%s%d-%d", churnPrefix, client, n)
		l := &life{}
		h.mu.Lock()
		h.lives[name] = l
		h.mu.Unlock()
		f.create(name, l, r)
		if l.refused { // the disk is full
			pause(ctx, time.Duration(r.IntN(500))*time.Millisecond)
			continue
		}
		if f.startTask(client, name, r); f.isShared(name) {
			f.message(name, r)
		}
		pause(ctx, time.Duration(r.IntN(800))*time.Millisecond)
		if r.IntN(4) > 0 {
			f.delete(name, l, r)
		}
	}
}

// tries is how often a call is repeated if its outcome is unknown.
const tries = 5

// create tries to create the agent.
func (f *fleetUnder) create(name string, l *life, r *rand.Rand) {
	project := "shell"
	if f.isShared(name) {
		project = fake.DefaultProjects()[0].Name
	}
	request := &fleetv1.CreateAgentRequest{Name: name, Project: project, Spec: "x", RequestId: name}
	for try := 1; try <= tries; try++ {
		err := f.call(r, "CreateAgent", request, &fleetv1.CreateAgentResponse{})
		switch reason := reasonOf(err); {
		case err == nil:
			l.created = true
			return
		case reason == "AGENT_EXISTS":
			f.history.problem("%s was created only once, and is said to exist", name)
			return
		case reason != "":
			l.refused = try == 1
			return
		}
	}
	f.history.count("unknown outcome of a create")
}

// message sends the agent's task a message, once.
func (f *fleetUnder) message(agent string, r *rand.Rand) {
	h := f.history
	shown := &fleetv1.ShowAgentResponse{}
	if err := f.call(r, "ShowAgent", &fleetv1.ShowAgentRequest{AgentName: agent}, shown); err != nil || shown.GetAgent().GetCurrentTaskId() == nil {
		return
	}
	text := "message to " + agent
	request := &fleetv1.SendTaskMessageRequest{AgentName: agent, Message: text, RequestId: text}
	for try := 1; try <= tries; try++ {
		answer := &fleetv1.SendTaskMessageResponse{}
		err := f.call(r, "SendTaskMessage", request, answer)
		if err != nil && reasonOf(err) == "" {
			continue
		}
		h.mu.Lock()
		h.messages[text] = &sent{agent, answer.GetTask().GetId(), err == nil}
		h.mu.Unlock()
		return
	}
	h.count("unknown outcome of a message")
}

// delete tries to delete the agent, and then looks whether it is gone.
func (f *fleetUnder) delete(name string, l *life, r *rand.Rand) {
	l.deleting = true
	for try := 1; try <= tries && !l.deleted; try++ {
		err := f.call(r, "DeleteAgent", &fleetv1.DeleteAgentRequest{AgentName: name, RequestId: "delete " + name}, &fleetv1.DeleteAgentResponse{})
		reason := reasonOf(err)
		switch {
		case reason == "AGENT_NOT_FOUND" && l.created && try == 1:
			f.history.problem("%s was created, and is not there to be deleted", name)
			return
		case reason != "" && reason != "AGENT_NOT_FOUND":
			return
		}
		l.deleted = err == nil
	}
	if !l.deleted {
		f.history.count("unknown outcome of a deletion")
		return
	}
	// The answer may have come before the end of the deletion, so it may be shown for a moment. Once it is gone, it stays so.
	gone := false
	for range 3 {
		err := f.call(r, "ShowAgent", &fleetv1.ShowAgentRequest{AgentName: name}, &fleetv1.ShowAgentResponse{})
		switch {
		case reasonOf(err) == "AGENT_NOT_FOUND":
			gone = true
		case err == nil && gone:
			f.history.problem("%s was deleted and gone, and is there again", name)
		}
	}
}

// checkLives compares what callers were told about agents and messages with the log, the list of agents and the world.
func (f *fleetUnder) checkLives(log []*fleetv1.Event, listed []string, world *fake.Place) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	created, deleted, refused := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, e := range log {
		switch e.GetType() {
		case fleetv1.Event_agent_created:
			created[e.GetAgentName()]++
		case fleetv1.Event_agent_deleted:
			deleted[e.GetAgentName()]++
		case fleetv1.Event_task_step:
			if strings.Contains(e.GetText(), "a message was not given") {
				refused[e.GetTaskId()] = true
			}
		}
	}
	workspaces := map[string]int{}
	for _, w := range world.Workspaces() {
		workspaces[w.Name]++
	}
	h := f.history
	for name, l := range h.lives {
		there := slices.Contains(listed, name)
		switch {
		case created[name] > 1:
			bad("%s was created %d times", name, created[name])
		case l.created && created[name] == 0:
			bad("the acknowledged agent %s is lost", name)
		case l.refused && created[name] > 0:
			bad("%s was refused, and was created", name)
		case deleted[name] > created[name]:
			bad("%s was deleted %d times", name, deleted[name])
		case l.deleted && (there || deleted[name] == 0):
			bad("%s is there after its deletion was acknowledged", name)
		case l.created && !l.deleting && !there:
			bad("%s was created, never deleted, and is not there", name)
		case there != (created[name] > deleted[name]):
			bad("%s: the log has %d creations and %d deletions, and it is listed: %t", name, created[name], deleted[name], there)
		}
		if f.isShared(name) && workspaces[name] != created[name]-deleted[name] {
			bad("%s has %d workspaces, and the log has %d creations and %d deletions", name, workspaces[name], created[name], deleted[name])
		}
	}
	for text, m := range h.messages {
		n := 0
		for _, got := range world.Messages(m.task) {
			if got == text {
				n++
			}
		}
		switch {
		case n > 1:
			bad("%s was delivered %d times", text, n)
		case m.accepted && n == 0 && !refused[m.task] && deleted[m.agent] == 0:
			bad("the acknowledged %q was neither delivered nor refused", text)
		}
	}
	h.calls["agents created under faults"], h.calls["agents deleted under faults"], h.calls["messages checked"] = len(created)-len(f.agents), len(deleted), len(h.messages)
	return problems
}
