package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
	"fleet/internal/runner/question"
	"fleet/internal/runner/shim"
)

// journalReader reads the journal of the run's questions, which the supervisor writes.
type journalReader struct {
	run       shim.Run
	offset    int64 // end of what was read
	questions map[string]fleet.Question
}

// maxJournal limits how much of the journal is read at once, in bytes. The supervisor writes no longer records.
const maxJournal = 1 << 20

// read returns the current state of each question that has changed since the last call.
func (j *journalReader) read() ([]fleet.Question, error) {
	if j.questions == nil {
		j.questions = map[string]fleet.Question{}
	}
	f, err := agentfile.Open(j.run.Path(question.Journal))
	if isMissing(err) || errors.Is(err, agentfile.ErrReplaced) {
		return nil, nil
	}
	if err != nil {
		return nil, HostError("cannot read the run's questions", err)
	}
	defer func() { _ = f.Close() }()
	var changed []string
	for {
		b, err := io.ReadAll(io.NewSectionReader(f, j.offset, maxJournal))
		if err != nil {
			return nil, HostError("cannot read the run's questions", err)
		}
		end := bytes.LastIndexByte(b, '\n') + 1
		if end == 0 {
			break
		}
		j.offset += int64(end)
		for line := range bytes.Lines(b[:end]) {
			if id := j.applyRecord(line); id != "" {
				changed = append(changed, id)
			}
		}
	}
	var all []fleet.Question
	seen := map[string]bool{}
	for _, id := range changed {
		if !seen[id] {
			all, seen[id] = append(all, j.questions[id]), true
		}
	}
	return all, nil
}

// applyRecord updates the question that the record belongs to. It returns the question's id, or an empty string if the record
// is invalid.
func (j *journalReader) applyRecord(line []byte) string {
	var r question.Record
	if json.Unmarshal(line, &r) != nil || r.ID == "" {
		return ""
	}
	q, known := j.questions[r.ID]
	if !known {
		q = fleet.Question{
			ID: r.ID, Kind: fleet.QuestionKind(r.Kind), Text: r.Text, Tool: r.Tool, Input: r.Input, Options: r.Options, Rules: r.Rules,
			AskedAt: r.AskedAt, ExpiresAt: r.ExpiresAt,
		}
	}
	q.Status = fleet.QuestionStatus(r.Status)
	if r.Status == question.Answered {
		q.Answer, q.Message, q.AnsweredBy, q.AnsweredAt = r.Answer, r.Message, r.By, r.AnsweredAt
	}
	j.questions[r.ID] = q
	return r.ID
}
