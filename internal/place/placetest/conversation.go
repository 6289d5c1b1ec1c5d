package placetest

import "fleet/internal/fleet"

// conversation checks that an agent's tasks share one conversation. If the conversation is lost, a new one must start,
// and the run must report that.
func conversation(x *fixture) {
	p := x.harness.Prompts.Converses
	if p.Text == "" {
		x.Skip("the place has no agent that keeps a conversation")
	}
	// turn is a run of the conversation.
	type turn struct {
		conversation string // the name of the conversation; empty: the agent's default
		continues    bool
		want         string // the summary
		lost         bool   // the run must report that the conversation was lost
	}
	talk := func(a fleet.Agent, next turn) {
		x.Helper()
		r := x.newRun(p)
		r.Continues, r.Conversation = next.continues, next.conversation
		x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
		outputs, o := x.followWhole(a, r)
		x.Equal(fleet.TaskCompleted, o.Status, "outcome: %+v", o)
		x.Equal(next.want, o.Summary)
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
		x.Equal(next.lost, why != "", "why the conversation was lost: %q", why)
	}
	const summaryAfterLoss = "task 1, told of the new conversation"
	a := x.readyAgentIn(p.Project)
	talk(a, turn{want: "task 1"})
	talk(a, turn{continues: true, want: "task 2"})
	x.harness.Forget(x.T) // as if the workspace's home was recreated
	talk(a, turn{continues: true, want: summaryAfterLoss, lost: true})
	talk(a, turn{continues: true, want: "task 2"})

	// A new workspace has lost the conversation too.
	b := x.readyAgentIn(p.Project)
	talk(b, turn{continues: true, want: summaryAfterLoss, lost: true})
	talk(b, turn{continues: true, want: "task 2"})
	talk(a, turn{continues: true, want: "task 3"})

	// A run that names its conversation does not share it with runs of other names.
	talk(a, turn{conversation: "side", want: "task 1"})
	talk(a, turn{continues: true, want: "task 4"})
	talk(a, turn{conversation: "other", want: "task 1"})
	talk(a, turn{conversation: "side", continues: true, want: "task 2"})
}
