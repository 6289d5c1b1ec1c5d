package rpc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// TestTextThatIsNotUTF8 puts invalid UTF-8 into texts that an agent or its host may write, and checks that the messages can still be
// encoded.
func TestTextThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	const bad = "a\xffb"
	task := &fleet.Task{ID: "t", Summary: bad, Description: bad, Reason: bad}
	agent := &fleet.AgentView{Task: task, Agent: fleet.Agent{
		Name: "papi", Spec: bad, StateReason: bad, Location: bad, Metadata: map[string]string{bad: bad},
	}}
	for name, m := range map[string]proto.Message{
		"agent":   agentOf(agent),
		"summary": summaryOf(agent),
		"task":    taskOf(task),
		"detail":  detailOf(&service.TaskDetails{Task: task, Payload: &fleet.Portion{Bytes: []byte(bad)}, Preview: bad}),
		"event":   eventsOf([]fleet.Event{{Type: fleet.EventTaskEnded, Text: bad}}, true)[0],
	} {
		_, err := proto.Marshal(m)
		require.NoError(t, err, name)
	}
	require.Equal(t, "a\uFFFDb", taskOf(task).GetSummary())
}

// TestSteps checks that the API has a kind for each type of step, and a detail for each type that has more than a text.
func TestSteps(t *testing.T) {
	t.Parallel()
	all := fleet.Step{
		ID: "id\xff", Parent: "p", Agent: "a", Name: "n\xff", Arguments: []byte(`{"a":[1,"b"]}`), Result: "r\xff", IsError: true, Duration: time.Second,
		Path: "p\xff", Patch: "@@", Message: "m\xff", Status: "started", Items: []fleet.TodoItem{{Text: "t\xff", Status: "pending"}},
		Whole: &fleet.Span{Offset: 1 << 40, Size: 7},
	}
	for kind, name := range fleetv1.StepKind_name {
		if kind == 0 {
			continue
		}
		s := all
		s.Type = fleet.StepType(name)
		withoutDetail := false
		switch s.Type {
		case fleet.StepRetry:
			s.Retry = &fleet.RequestRetry{Attempt: 1, Limit: 3, Delay: time.Second, Status: 529, Error: "overloaded\xff"}
		case fleet.StepLimit, fleet.StepWindow:
			s.Limit = &fleet.UsageLimit{Window: "w\xff", Utilization: 1, Reached: true, ResetsAt: time.Now()}
		case fleet.StepCompaction:
			s.Compaction = &fleet.Compaction{Trigger: "auto", Before: 9, After: 1}
		case fleet.StepUsage:
			s.Usage = &fleet.RequestUsage{Model: "m\xff", Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4, CostUSD: 5}
		case fleet.StepText, fleet.StepMessage, fleet.StepNote:
			withoutDetail = true
		}
		got := stepOf(fleet.TaskStep{Seq: 4, Text: "x\xff", Step: &s})
		require.Equal(t, kind, int32(got.GetKind()), name)
		require.Equal(t, withoutDetail, got.GetDetail() == nil, name)
		require.Equal(t, "4", got.GetCursor())
		_, err := proto.Marshal(got)
		require.NoError(t, err, name)
		back := fleet.ParseStep(s.JSON())
		require.Equal(t, s.Type, back.Type, "a step must survive its JSON form")
	}
}

// TestRunTaskHasFieldsOfQueueTask checks that RunTaskRequest has all fields of QueueTaskRequest, and that copyFields copies them.
func TestRunTaskHasFieldsOfQueueTask(t *testing.T) {
	t.Parallel()
	queue, run := (&fleetv1.QueueTaskRequest{}).ProtoReflect().Descriptor().Fields(), (&fleetv1.RunTaskRequest{}).ProtoReflect().Descriptor().Fields()
	for i := range queue.Len() {
		want := queue.Get(i)
		got := run.ByName(want.Name())
		require.NotNil(t, got, "RunTaskRequest has no field %s", want.Name())
		require.Equal(t, []any{want.Number(), want.Kind(), want.Cardinality(), want.HasPresence()}, []any{got.Number(), got.Kind(), got.Cardinality(), got.HasPresence()}, want.Name())
	}
	require.Equal(t, queue.Len()+1, run.Len(), "wait_seconds must be the only other field")
	q := copyFields(&fleetv1.QueueTaskRequest{}, &fleetv1.RunTaskRequest{AgentName: "papi", TaskDescription: "done", Checks: []string{"make"}, Labels: map[string]string{"a": "b"}, WaitSeconds: new(int32(5))})
	require.True(t, proto.Equal(&fleetv1.QueueTaskRequest{AgentName: "papi", TaskDescription: "done", Checks: []string{"make"}, Labels: map[string]string{"a": "b"}}, q), q)
}
