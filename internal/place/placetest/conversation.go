package placetest

import "fleet/internal/fleet"

// conversation checks that an agent's tasks share one conversation. If the conversation is lost, a new one must start,
// and the run must report that.
func conversation(x *fixture) {
	p := x.harness.Prompts.Converses
	if p.Text == "" {
		x.Skip("the place has no agent that keeps a conversation")
	}
	talkIn := func(name string, a fleet.Agent, continues bool, want string, lost bool) {
		x.Helper()
		r := x.run(p)
		r.Continues, r.Conversation = continues, name
		x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
		outputs, o := x.followWhole(a, r)
		x.Equal(fleet.TaskCompleted, o.Status, "outcome: %+v", o)
		x.Equal(want, o.Summary)
		x.True(o.HasConversation, "the next run must continue the conversation")
		why := ""
		for _, out := range outputs {
			if out.ConversationLost != "" {
				x.Empty(why, "the lost conversation must be reported only once")
				why = out.ConversationLost
				x.True(out.IsStep)
				x.Contains(out.Text, "a new conversation starts")
			}
		}
		x.Equal(lost, why != "", "why the conversation was lost: %q", why)
	}
	talk := func(a fleet.Agent, continues bool, want string, lost bool) {
		x.Helper()
		talkIn("", a, continues, want, lost)
	}
	const anew = "task 1, told of the new conversation"
	a := x.readyAgentIn(p.Project)
	talk(a, false, "task 1", false)
	talk(a, true, "task 2", false)
	x.harness.Forget(x.T) // as if the workspace's home was recreated
	talk(a, true, anew, true)
	talk(a, true, "task 2", false)

	// A new workspace has lost the conversation too.
	b := x.readyAgentIn(p.Project)
	talk(b, true, anew, true)
	talk(b, true, "task 2", false)
	talk(a, true, "task 3", false)

	// A run that names its conversation does not share it with runs of other names.
	talkIn("side", a, false, "task 1", false)
	talk(a, true, "task 4", false)
	talkIn("other", a, false, "task 1", false)
	talkIn("side", a, true, "task 2", false)
}
