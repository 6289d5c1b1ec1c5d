package runner

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/shim"
)

// batchDelay is how long follow collects output before it passes the output on, so that chatty programs do not cause many
// small events. Output that exists when Follow is called is passed on at once.
const batchDelay = 50 * time.Millisecond

// partialLineDelay is how long an incomplete line waits for its end before it is passed on. The line may be a prompt
// that waits for input.
const partialLineDelay = time.Second

// pollInterval is how often follow reads the run's files if the supervisor sends no notifications. The supervisor may be
// suspended, or the agent may have replaced the supervisor's socket.
const pollInterval = 2 * time.Second

// Follow implements fleet.Runner. It always reads the output from its beginning, because the meaning of a line, and the
// outcome of the run, can depend on earlier lines.
func (a Agent) Follow(ctx context.Context, r fleet.Run, cursor string, sink func(fleet.Output) error) (fleet.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return fleet.Outcome{}, err
	}
	if err := a.requireRun(r.TaskID); err != nil {
		return fleet.Outcome{}, err
	}
	f, err := a.newFollower(r, cursor, sink)
	if err != nil {
		return fleet.Outcome{}, err
	}
	defer f.reader.Close()
	exit, err := f.follow(ctx)
	if err == nil {
		err = f.reportProblem(exit)
	}
	if err != nil {
		return fleet.Outcome{}, err
	}
	return a.host.concludeRun(a.home, f, exit)
}

// requireRun returns TASK_NOT_FOUND if the run was never started. Such a run cannot start later.
func (a Agent) requireRun(taskID string) error {
	claimed, err := settleUnclaimed(a.home.run(taskID))
	if err == nil && !claimed {
		err = a.noTaskError(taskID)
	}
	return err
}

func (a Agent) noTaskError(id string) error {
	return fleet.Errorf(fleet.ReasonTaskNotFound, "the agent %q has no task %s", a.name, id)
}

// maxFormat limits the description of a run's output format, in bytes.
const maxFormat = 1 << 20

// follower reads the output of one run.
type follower struct {
	run      shim.Run
	format   driver.Format
	parser   driver.Parser
	sink     func(fleet.Output) error
	passedTo position // an earlier call has passed on the output up to here

	openReported bool // the sink knows the number of open tool calls, or need not know it

	spec   shim.Spec
	reader *shim.Reader
	offset int64  // end of the parsed part
	data   []byte // read but not parsed
	gap    int64  // number of bytes after data that the supervisor did not keep

	questions journalReader
}

func (a Agent) newFollower(r fleet.Run, cursor string, sink func(fleet.Output) error) (*follower, error) {
	run := a.home.run(r.TaskID)
	f := &follower{run: run, sink: sink, questions: journalReader{run: run}}
	var err error
	if f.passedTo, err = parsePosition(cursor); err != nil {
		return nil, err
	}
	if f.spec, err = run.Spec(); err != nil && !errors.Is(err, agentfile.ErrReplaced) { // the outcome can be determined without the spec
		if _, statErr := os.Stat(string(run)); isMissing(statErr) { // the agent was deleted meanwhile
			return nil, a.noTaskError(r.TaskID)
		}
		return nil, HostError("cannot read the run", err)
	}
	b, err := agentfile.Read(run.Path(formatFile), maxFormat)
	if err == nil {
		err = json.Unmarshal(b, &f.format)
	}
	if err == nil {
		f.parser, err = driver.NewParser(f.format)
	}
	if err != nil { // another version of Fleet wrote the file, or the agent replaced it: pass on the output as text
		f.format = driver.Format{Kind: "text"}
		f.parser, err = driver.NewParser(f.format)
	}
	if err != nil {
		return nil, HostError("cannot read the run", err)
	}
	f.reader = run.Reader("output")
	return f, nil
}

// settle returns how the run ended, or nil while the run is active. If the agent was deleted, settle reports the run as
// interrupted, because the real end is no longer known.
func (f *follower) settle() (*shim.Exit, error) {
	exit, err := f.run.Settle()
	if err == nil {
		return exit, nil
	}
	if _, err := os.Stat(string(f.run)); isMissing(err) {
		return exitOfDeleted(), nil
	}
	return nil, HostError("cannot read the run's end", err)
}

// settleOrKill is like settle, but kills an overdue run whose supervisor does not answer.
func (f *follower) settleOrKill(ctx context.Context) (*shim.Exit, error) {
	exit, err := f.settle()
	if err != nil || exit != nil || !f.isOverdue() || f.run.Responds(ctx) {
		return exit, err
	}
	if err := ctx.Err(); err != nil { // then the supervisor may not have had the time to answer
		return nil, err
	}
	if err := f.run.Kill(shim.Deadline); err != nil { // the supervisor should have ended the run, but is suspended
		return nil, err
	}
	return f.settle()
}

// exitOfDeleted returns the end of a run whose agent was deleted meanwhile.
func exitOfDeleted() *shim.Exit {
	return &shim.Exit{End: shim.Interrupted, Code: -1, Reason: "its agent was deleted"}
}

// overdueMargin is the time after a run's time limit and grace period until the run counts as overdue.
const overdueMargin = 2 * time.Second

// isOverdue reports whether the run should have ended because of its time limit.
func (f *follower) isOverdue() bool {
	return f.spec.Timeout > 0 && timeSinceClaim(f.run) > f.spec.Timeout+f.spec.Grace+overdueMargin
}

// follow passes on the output and the questions until the run has ended, and returns how the run ended.
func (f *follower) follow(ctx context.Context) (*shim.Exit, error) {
	watchCtx, cancel := context.WithCancel(ctx)
	var notifications <-chan struct{}
	defer func() {
		cancel()
		if notifications != nil {
			for range notifications { // until the watch has ended
			}
		}
	}()
	const minInterval, maxInterval = 5 * time.Millisecond, 500 * time.Millisecond
	for interval := minInterval; ; interval = min(2*interval, maxInterval) {
		// The state is read before the output. So if the state says that the run has ended, all output is read.
		exit, err := f.settleOrKill(ctx)
		if err != nil {
			return nil, err
		}
		var closed, waiting []fleet.Question
		if f.spec.Questions != nil {
			closed, waiting, err = f.readQuestions()
		}
		if err == nil {
			err = f.passQuestions(closed)
		}
		if err == nil {
			err = f.passOutput(ctx, exit != nil)
		}
		if err == nil {
			err = f.passQuestions(waiting) // after the output that precedes the questions
		}
		if err != nil || exit != nil {
			return exit, err
		}
		if err := f.reportOpenCalls(); err != nil {
			return nil, err
		}
		var wait, idle <-chan time.Time
		if _, holds := f.parser.(driver.Flusher); holds && len(f.data) > 0 {
			idle = time.After(partialLineDelay)
		}
		wait = time.After(pollInterval)
		if notifications == nil {
			if notifications, err = f.run.Watch(watchCtx); err != nil {
				notifications, wait = nil, time.After(interval) // the supervisor is about to listen, or to end
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-wait:
		case <-idle:
			if err := f.flush(); err != nil {
				return nil, err
			}
		case _, open := <-notifications:
			if !open {
				notifications = nil
				continue
			}
			interval = minInterval
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(batchDelay):
			}
		}
	}
}

// reportOpenCalls reports the number of open tool calls, once, if Follow was called with a cursor in the middle of the run.
func (f *follower) reportOpenCalls() error {
	if f.openReported || f.passedTo == (position{}) || f.openCalls() == 0 {
		f.openReported = true
		return nil
	}
	f.openReported = true
	return f.sink(fleet.Output{Cursor: f.passedTo.String(), RunningToolCalls: f.openCalls()})
}

// passOutput passes on the available output. final means that the program will write no more output.
func (f *follower) passOutput(ctx context.Context, final bool) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		more, err := f.readOutput()
		if err != nil {
			return HostError("cannot read the run's output", err)
		}
		for {
			used, err := f.parse(final && !more)
			if err != nil {
				return err
			}
			if used == 0 {
				break
			}
		}
		if f.gap > 0 {
			if err := f.skipGap(); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

// readOutput reads more output, and reports whether there was any.
func (f *follower) readOutput() (bool, error) {
	const block = 64 << 10
	if cap(f.data)-len(f.data) < block {
		f.data = append(make([]byte, 0, 2*len(f.data)+block), f.data...)
	}
	n, skipped, err := f.reader.Read(f.data[len(f.data) : len(f.data)+block])
	f.data = f.data[:len(f.data)+n]
	f.gap = skipped
	return n > 0 || skipped > 0, err
}

// skipGap passes on the pieces in the data before the gap, and moves the offset past the gap.
func (f *follower) skipGap() error {
	var pieces []driver.Piece
	if s, ok := f.parser.(driver.Skipper); ok {
		pieces = s.Skip(f.data)
	}
	if err := f.passPieces(len(f.data), pieces); err != nil {
		return err
	}
	f.offset += f.gap
	f.gap = 0
	return nil
}

// parse parses a part of the data, passes its pieces on, and returns the length of the part.
func (f *follower) parse(final bool) (int, error) {
	if len(f.data) == 0 {
		return 0, nil
	}
	data := f.data
	if ahead := f.passedTo.offset - f.offset; ahead > 0 && ahead < int64(len(data)) {
		// An earlier call ended a piece at the cursor. A piece must end there again, even if more data can be read now.
		data, final = data[:ahead], false
	}
	n, pieces := f.parser.Parse(data, final)
	if flusher, ok := f.parser.(driver.Flusher); ok && n == 0 && len(data) < len(f.data) {
		n, pieces = flusher.Flush(data) // an earlier call flushed the same part
	}
	if n == 0 && len(data) < len(f.data) { // the cursor does not belong to this run
		n, pieces = f.parser.Parse(f.data, false)
	}
	return n, f.passPieces(n, pieces)
}

// flush passes on an incomplete line that was held back.
func (f *follower) flush() error {
	n, pieces := f.parser.(driver.Flusher).Flush(f.data)
	return f.passPieces(n, pieces)
}

// passPieces passes on the pieces that the next n bytes contain, without the pieces that an earlier call has passed on.
func (f *follower) passPieces(n int, pieces []driver.Piece) error {
	for i, s := range pieces {
		end := position{offset: f.offset, piece: i + 1}
		if i == len(pieces)-1 {
			end = position{offset: f.offset + int64(n)}
		}
		if !f.passedTo.before(end) {
			continue
		}
		f.openReported = true
		if s.Data != nil && s.Data.Whole != nil {
			*s.Data.Whole = fleet.Span{Offset: f.offset, Size: int64(n)}
		}
		if err := f.sink(fleet.Output{Cursor: end.String(), IsStep: s.Step, Text: s.Text, Data: s.Data.JSON(), RunningToolCalls: f.openCalls(), ConversationLost: s.LostReason}); err != nil {
			return err
		}
	}
	f.offset += int64(n)
	f.data = f.data[n:]
	return nil
}

// reportProblem reports what the supervisor failed to do, for example that it could not keep output on a full disk. The
// report comes after all output.
func (f *follower) reportProblem(exit *shim.Exit) error {
	end := position{offset: f.offset, piece: 1}
	if exit.Problem == "" || !f.passedTo.before(end) {
		return nil
	}
	return f.sink(fleet.Output{Cursor: end.String(), IsStep: true, Text: driver.CleanText([]byte(exit.Problem)), RunningToolCalls: f.openCalls()})
}

// openCalls returns the number of open tool calls in the parsed output.
func (f *follower) openCalls() int {
	if o, ok := f.parser.(driver.CallCounter); ok {
		return o.OpenCalls()
	}
	return 0
}
