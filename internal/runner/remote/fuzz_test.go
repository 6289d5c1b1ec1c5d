package remote

import (
	"crypto/ed25519"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/internal/fleet"
)

// FuzzMessages checks that any message of a runner or of Fleet can be converted, and that the result can be encoded.
func FuzzMessages(f *testing.F) {
	for _, m := range []proto.Message{
		runToProto(fleet.Run{TaskID: "t", Prompt: "do it", Timeout: time.Minute}), outputToProto(fleet.Output{Text: "hi", Cursor: "1"}),
		outcomeToProto(fleet.Outcome{Status: fleet.TaskCompleted, Summary: "done", Payload: []byte("x")}), agentToProto(fleet.Agent{UID: "u"}),
		combinationToProto(fleet.Combination{Onto: "1", Message: "land"}), combineResultToProto(fleet.CombineResult{Conflicts: []fleet.Conflict{{Path: "a"}}}),
		overlapsToProto([]fleet.WorkOverlap{{A: "a", B: "b", Files: []fleet.OverlapFile{{Path: "p", Lines: [][2]int{{1, 2}}}}}}),
	} {
		b, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var messages []proto.Message
		if m := (&runnerv1.Run{}); proto.Unmarshal(data, m) == nil {
			messages = append(messages, runToProto(runFromProto(m)))
		}
		if m := (&runnerv1.Output{}); proto.Unmarshal(data, m) == nil {
			messages = append(messages, outputToProto(outputFromProto(m)))
		}
		if m := (&runnerv1.Outcome{}); proto.Unmarshal(data, m) == nil {
			messages = append(messages, outcomeToProto(outcomeFromProto(m)))
		}
		if m := (&runnerv1.Agent{}); proto.Unmarshal(data, m) == nil {
			messages = append(messages, agentToProto(agentFromProto(m)))
		}
		if m := (&runnerv1.Combination{}); proto.Unmarshal(data, m) == nil {
			messages = append(messages, combinationToProto(combinationFromProto(m)))
		}
		if m := (&runnerv1.Combined{}); proto.Unmarshal(data, m) == nil {
			messages = append(messages, combineResultToProto(combineResultFromProto(m)))
		}
		if m := (&runnerv1.Overlaps{}); proto.Unmarshal(data, m) == nil {
			messages = append(messages, overlapsToProto(overlapsFromProto(m)))
		}
		for _, m := range messages {
			_, err := proto.Marshal(m)
			require.NoError(t, err)
		}
	})
}

// FuzzSignature checks that the verifier refuses every request that Fleet has not signed.
func FuzzSignature(f *testing.F) {
	f.Add("u", "i", "n", "1234", "AAAA", "hash")
	f.Add("", "", "", "-9223372036854775808", strings.Repeat("A", 88), "")
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	v := &verifier{key: key.Public().(ed25519.PublicKey), instance: "i", now: time.Now, nonces: map[string]time.Time{}} //nolint:forcetypeassert // of ed25519
	f.Fuzz(func(t *testing.T, agent, instance, nonce, expires, signature, body string) {
		r := httptest.NewRequest(http.MethodPost, "/fleet.runner.v1.RunnerService/Dispatch", strings.NewReader("{}"))
		for name, value := range map[string]string{
			headerAgent: agent, headerInstance: instance, headerNonce: nonce, headerExpires: expires, headerSignature: signature, headerBody: body,
		} {
			r.Header.Set(name, value)
		}
		require.Error(t, v.check(httptest.NewRecorder(), r))
	})
}
