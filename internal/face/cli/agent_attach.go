package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newAgentAttach() *cobra.Command {
	return &cobra.Command{
		Use:   "attach AGENT",
		Short: "Use the program of an agent on this terminal",
		Long: `Use the program of an idle agent on this terminal, such as Claude Code, in the
agent's conversation, directory and sandbox. Meanwhile the agent is busy, and takes no
tasks. When you leave the program, the agent is idle again, and its next task
continues the conversation, with what you have said. If the connection breaks, the
program ends.

Only the owner of an agent and admins can attach to it.`,
		Example: `  fleet agent attach papi
  fleet task run papi "Go on with what we have agreed"`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			return s.attachTerminal(ctx, args[0])
		}),
	}
}

// terminalResetSequence switches off what a program may have left on when it ended: the alternate screen, a hidden cursor, reports of
// the mouse and of pastes, keyboard protocols, scroll regions and colours.
const terminalResetSequence = "\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[?2031l\x1b[<u\x1b[r\x1b[0m\r\n"

// attachTerminal connects the terminal with the program of the agent until the program ends.
func (s *session) attachTerminal(ctx context.Context, agent string) error {
	in, out := terminalOf(s.deps.Stdin, s.deps.Getenv), s.screen.outTerminal
	if !in.isTerminal() || !out.isTerminal() {
		return usagef("standard input and output must be a terminal: to give the agent work without one, use \"fleet task run\"")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := fleetv1.NewTerminalServiceClient(s.conn).AttachAgent(ctx)
	if err != nil {
		return err
	}
	columns, rows := out.size()
	if err := stream.Send(&fleetv1.AttachAgentRequest{AgentName: agent, Term: s.deps.Getenv("TERM"), Columns: columns, Rows: rows}); err != nil && !isEnd(err) {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	termState, err := term.MakeRaw(int(in.file.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(int(in.file.Fd()), termState) }()
	go sendInput(ctx, stream, in.file, out)
	task, err := receiveOutput(stream, out.file)
	_ = term.Restore(int(in.file.Fd()), termState)
	if task.GetStatus() != fleetv1.Task_completed {
		_, _ = out.file.WriteString(terminalResetSequence)
	}
	switch {
	case err != nil:
		s.note("The program has ended, because its terminal was disconnected. The task is %s.", first.GetTask().GetId())
		return err
	case task.GetStatus() != fleetv1.Task_completed:
		return Fail(ExitFailed, "", "the program %s: %s", task.GetStatus(), task.GetReason())
	}
	s.hint("You have left %s. Its next task continues the conversation.", agent)
	return nil
}

// receiveOutput copies the output of the agent's program to the terminal until the stream ends, and returns the task as the
// server reported it last. The error is io.ErrUnexpectedEOF if the stream ended without a task.
func receiveOutput(stream grpc.ServerStreamingClient[fleetv1.AttachAgentResponse], out *os.File) (task *fleetv1.Task, err error) {
	for {
		m, err := stream.Recv()
		switch {
		case isEnd(err) && task != nil:
			return task, nil
		case isEnd(err):
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		}
		if m.GetTask() != nil {
			task = m.GetTask()
		}
		if _, err := out.Write(m.GetOutput()); err != nil {
			return nil, err
		}
	}
}

// sendInput sends the input from the terminal and the terminal's new sizes, until ctx is done, the input ends or the stream
// breaks.
func sendInput(ctx context.Context, stream grpc.BidiStreamingClient[fleetv1.AttachAgentRequest, fleetv1.AttachAgentResponse], in *os.File, out terminal) {
	reads := make(chan []byte)
	go func() { // this goroutine ends with the process, because nothing else ends a read of a terminal
		defer close(reads)
		for {
			b := make([]byte, 4<<10)
			n, err := in.Read(b)
			if err != nil {
				return
			}
			select {
			case reads <- b[:n]:
			case <-ctx.Done():
				return
			}
		}
	}()
	resizes := make(chan os.Signal, 1)
	signal.Notify(resizes, syscall.SIGWINCH)
	defer signal.Stop(resizes)
	for {
		m := &fleetv1.AttachAgentRequest{}
		select {
		case input, ok := <-reads:
			if !ok {
				_ = stream.CloseSend()
				return
			}
			m.Input = input
		case <-resizes:
			m.Columns, m.Rows = out.size()
		case <-ctx.Done():
			return
		}
		if stream.Send(m) != nil { // receiveOutput gets the reason
			return
		}
	}
}
