package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/store/packed"
)

// contractRecord is what a caller learned about a contract whose agent it started.
type contractRecord struct {
	agent     string // its id
	pieces    []*piece
	completed bool // acknowledged
}

// piece is a part of the payload of a contract.
type piece struct {
	text     string // ends with a semicolon
	accepted bool
	refused  bool // it is certain that it was not accepted
}

// contractResult is the result of a contract in the store.
type contractResult struct {
	status           string // the status and the completion, for example "completed reported"
	summary, payload string
}

// callContracts is a caller that starts agents for contracts, appends to their payloads and reports their ends, until ctx is done.
func (f *fleetUnderLoad) callContracts(ctx context.Context, client int, r *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("contract-%d-%d", client, n)
		c := &contractRecord{agent: f.startContract(id, r)}
		if c.agent == "" {
			pause(ctx, time.Duration(r.IntN(500))*time.Millisecond)
			continue
		}
		f.history.mu.Lock()
		f.history.contracts = append(f.history.contracts, c)
		f.history.mu.Unlock()
		for i := range 1 + r.IntN(4) {
			p := &piece{text: fmt.Sprintf("%s-%d;", id, i)}
			c.pieces = append(c.pieces, p)
			f.appendPiece(c, p, r)
			pause(ctx, time.Duration(r.IntN(200))*time.Millisecond)
		}
		f.completeContract(c, r)
		pause(ctx, time.Duration(r.IntN(800))*time.Millisecond)
	}
}

// startContract starts an agent for a contract. It returns the agent's id, or "" if the server has refused the request or has not
// answered.
func (f *fleetUnderLoad) startContract(id string, r *rand.Rand) string {
	request := &fleetv1.AgentStartRequest{Contract: "sleep 3600", RequestId: id}
	for range maxTries {
		answer := &fleetv1.AgentStartResponse{}
		if err := f.call(r, "LifecycleService/AgentStart", request, answer); err == nil || reasonOf(err) != "" {
			return answer.GetAgentId()
		}
	}
	return ""
}

func (f *fleetUnderLoad) appendPiece(c *contractRecord, p *piece, r *rand.Rand) {
	request := &fleetv1.AppendPayloadRequest{AgentId: c.agent, Chunk: p.text, RequestId: p.text}
	for try := 1; try <= maxTries; try++ {
		err := f.call(r, "LifecycleService/AppendPayload", request, &fleetv1.AppendPayloadResponse{})
		if err != nil && reasonOf(err) == "" {
			continue
		}
		p.accepted, p.refused = err == nil, err != nil && try == 1
		return
	}
}

// completeContract reports the end of the contract. The summary is the id of its agent.
func (f *fleetUnderLoad) completeContract(c *contractRecord, r *rand.Rand) {
	for range maxTries {
		err := f.call(r, "LifecycleService/AgentComplete", &fleetv1.AgentCompleteRequest{AgentId: c.agent, Summary: c.agent}, &fleetv1.AgentCompleteResponse{})
		if err == nil || reasonOf(err) != "" {
			c.completed = err == nil
			return
		}
	}
}

// settleContracts stops the contracts that have not ended, until there are none. Callers may not know some of them.
func (f *fleetUnderLoad) settleContracts(ctx context.Context) {
	for {
		running, err := f.runningContracts(ctx)
		if err == nil && len(running) == 0 {
			return
		}
		for _, id := range running {
			_ = overGRPC(ctx, f.servers[0], "LifecycleService/AgentStop", &fleetv1.AgentStopRequest{AgentId: id}, &fleetv1.AgentStopResponse{}) // the next list shows whether it has worked
		}
		if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
			f.history.addProblem("contracts do not end: %v, %v", running, err)
			return
		}
	}
}

// runningContracts returns the ids of the agents of contracts that have not ended.
func (f *fleetUnderLoad) runningContracts(ctx context.Context) (ids []string, err error) {
	for cursor := ""; ; {
		answer := &fleetv1.AgentListResponse{}
		if err := overGRPC(ctx, f.servers[0], "LifecycleService/AgentList", &fleetv1.AgentListRequest{Cursor: cursor, PageSize: new(int32(100))}, answer); err != nil {
			return nil, err
		}
		for _, a := range answer.GetAgents() {
			if a.GetStatus() == fleetv1.LifecycleStatus_running || a.GetStatus() == fleetv1.LifecycleStatus_ready {
				ids = append(ids, a.GetAgentId())
			}
		}
		if cursor = answer.GetNextCursor(); cursor == "" {
			return ids, nil
		}
	}
}

// contractResults returns the results of all contracts that callers know, by the id of the agent.
func (f *fleetUnderLoad) contractResults(ctx context.Context, t *testing.T) map[string]contractResult {
	results := map[string]contractResult{}
	client := fleetv1.NewLifecycleServiceClient(f.servers[0].conn)
	for _, c := range f.history.contracts {
		answer := &fleetv1.AgentStatusResponse{}
		require.NoError(t, overGRPC(ctx, f.servers[0], "LifecycleService/AgentStatus", &fleetv1.AgentStatusRequest{AgentIds: []string{c.agent}}, answer))
		require.Len(t, answer.GetAgents(), 1)
		status := answer.GetAgents()[0]
		result := contractResult{status: status.GetStatus().String() + " " + status.GetCompletion().String(), summary: status.GetSummary()}
		if status.GetPayloadSize() > 0 {
			s, err := client.DownloadPayload(ctx, &fleetv1.DownloadPayloadRequest{AgentId: c.agent})
			require.NoError(t, err)
			var content []byte
			for {
				body, err := s.Recv()
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				content = append(content, body.GetData()...)
			}
			payload, err := packed.Unpack(content, int(status.GetPayloadSize()))
			require.NoError(t, err)
			result.payload = string(payload)
		}
		results[c.agent] = result
	}
	return results
}

// checkContracts checks that an acknowledged report is the result of its contract, and that the payload of a reported contract has
// every acknowledged piece once, no refused piece, and the pieces in their order.
func (h *history) checkContracts(result *checkResult, e *evidence) {
	completed, accepted := 0, 0
	for _, c := range h.contracts {
		got, reported := e.contracts[c.agent], "completed reported"
		if c.completed {
			completed++
			if got.status != reported || got.summary != c.agent {
				result.addProblem("contract %s was reported as completed, and is %s with the summary %q", c.agent, got.status, got.summary)
			}
		}
		if got.status != reported {
			continue
		}
		var want []string
		have := strings.SplitAfter(got.payload, ";")
		have = have[:len(have)-1]
		for _, p := range c.pieces {
			switch {
			case p.accepted:
				accepted++
				want = append(want, p.text)
			case !p.refused && slices.Contains(have, p.text):
				want = append(want, p.text)
			}
		}
		if !slices.Equal(want, have) {
			result.addProblem("the payload of contract %s is %q instead of %q", c.agent, have, want)
		}
	}
	result.recordCompared("reports of contracts that were acknowledged", completed)
	result.recordCompared("pieces of payloads that were acknowledged", accepted)
}
