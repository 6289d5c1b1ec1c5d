package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskOutput() *cobra.Command {
	var offset int64
	var tail int32
	cmd := &cobra.Command{
		Use:   "output ID",
		Short: "Print the raw output of a task, byte for byte",
		Long: `Print everything that the agent's program has written for a task so far, byte for
byte. If the program writes JSON, the command prints that JSON.

The agent's runner keeps the output of the agent's last 20 runs. If an output is longer
than output.max (256 MiB by default), it keeps only the beginning and the end.`,
		Example: `  fleet task output 3f2a... >output.log
  fleet task output 3f2a... --tail 4096`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			req := &fleetv1.ShowTaskOutputRequest{TaskId: args[0], Limit: proto.Int32(maxPageBytes)}
			switch flags := s.cmd.Flags(); {
			case flags.Changed("offset") && flags.Changed("tail"):
				return usagef("--tail counts from the end: leave --offset out")
			case offset < 0:
				return usagef("--offset is %d: give 0 or more bytes", offset)
			case flags.Changed("tail") && tail <= 0:
				return usagef("--tail is %d: give 1 or more bytes", tail)
			case flags.Changed("tail"):
				return s.printTaskTail(ctx, req, tail)
			}
			req.Offset = proto.Float64(float64(offset))
			return s.printTaskOutput(ctx, req)
		}),
	}
	cmd.Flags().Int64Var(&offset, "offset", 0, "begin at byte `N`")
	cmd.Flags().Int32Var(&tail, "tail", 0, "only the last `N` bytes")
	return cmd
}

// printTaskTail prints the last n bytes of the output. If they do not fit into one page, it first asks for the size of the output.
func (s *session) printTaskTail(ctx context.Context, req *fleetv1.ShowTaskOutputRequest, n int32) error {
	if n <= req.GetLimit() {
		req.Tail = proto.Int32(n)
		return s.printTaskOutput(ctx, req)
	}
	lastByte, err := s.fleet.ShowTaskOutput(ctx, &fleetv1.ShowTaskOutputRequest{TaskId: req.GetTaskId(), Tail: proto.Int32(1)})
	if err != nil {
		return err
	}
	req.Offset = proto.Float64(max(0, lastByte.GetSize()-float64(n)))
	return s.printTaskOutput(ctx, req)
}

// printTaskOutput prints the output from req.Offset or req.Tail to its end. It requests one page at a time.
func (s *session) printTaskOutput(ctx context.Context, req *fleetv1.ShowTaskOutputRequest) error {
	var firstOffset *float64
	var pages []byte
	for {
		resp, err := s.fleet.ShowTaskOutput(ctx, req)
		if err == nil {
			pages, err = s.printOrAppendPage(pages, "output", resp.GetOutput(), resp.GetOutputEncoding())
		}
		if err != nil {
			return err
		}
		if gap := resp.GetOffset() - req.GetOffset(); gap > 0 && req.Tail == nil {
			s.hint("%.0f bytes before byte %.0f are missing: the output was longer than the runner keeps.", gap, resp.GetOffset())
		}
		if firstOffset == nil {
			firstOffset = &resp.Offset
		}
		if req.Offset, req.Tail = resp.NextOffset, nil; req.Offset == nil {
			text, encoding := encodeText(pages)
			resp.Offset, resp.Output, resp.OutputEncoding = *firstOffset, *text, encoding
			return s.print(resp, nil, func() {})
		}
	}
}

// maxPageBytes is the largest page of output or of a patch, in bytes.
const maxPageBytes = 1 << 20

// printOrAppendPage decodes a page. For people, it prints the page and returns nil. For programs, it appends the page to pages, because
// they get the whole text in one document. The parameter what names the text in errors.
func (s *session) printOrAppendPage(pages []byte, what, text, encoding string) ([]byte, error) {
	page, err := decodeText(what, text, encoding)
	if err != nil || !s.output.forPeople() {
		return append(pages, page...), err
	}
	s.screen.printPart(string(page))
	return nil, s.screen.firstWriteErr()
}

// decodeText returns the bytes of a text that the server sent in the encoding. If the encoding is "", the server sent the
// text unchanged. The parameter what is the name of the text for errors.
func decodeText(what, text, encoding string) ([]byte, error) {
	switch encoding {
	case "":
		return []byte(text), nil
	case "base64":
		return base64.StdEncoding.DecodeString(text)
	}
	return nil, fmt.Errorf("the server sent the %s in the encoding %q, which this version of fleet cannot read; use a newer fleet", what, encoding)
}

// encodeText returns the bytes as the server would send them: unchanged if they are UTF-8, else in base64.
func encodeText(data []byte) (text, encoding *string) {
	if utf8.Valid(data) {
		return proto.String(string(data)), nil
	}
	return proto.String(base64.StdEncoding.EncodeToString(data)), proto.String("base64")
}
