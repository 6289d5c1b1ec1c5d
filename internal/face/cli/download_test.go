package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

// breakingConn is a connection whose first streams break.
type breakingConn struct {
	grpc.ClientConnInterface
	breaks   int // number of streams that break
	messages int // number of messages that each of these streams delivers before it breaks
	streams  int // number of streams so far
}

// dial is a Dialer that connects c to the target.
func (c *breakingConn) dial(ctx context.Context, target Target) (grpc.ClientConnInterface, func() error, error) {
	conn, closeConn, err := DialNetwork(ctx, target)
	c.ClientConnInterface = conn
	return c, closeConn, err
}

func (c *breakingConn) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := c.ClientConnInterface.NewStream(ctx, d, method, opts...)
	if c.streams++; err == nil && c.streams <= c.breaks {
		s = &breakingStream{ClientStream: s, left: c.messages}
	}
	return s, err
}

type breakingStream struct {
	grpc.ClientStream
	left int
}

func (s *breakingStream) RecvMsg(m any) error {
	if s.left--; s.left < 0 {
		return status.Error(codes.Unavailable, "the connection broke")
	}
	return s.ClientStream.RecvMsg(m)
}

func TestDownloads(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	const payload = "the result\nin full: \x1b[31mred\x1b[0m日本\n"
	s.handlers = map[string]func(proto.Message, grpc.ServerStream) error{"DownloadPayload": func(req proto.Message, out grpc.ServerStream) (err error) {
		if r, _ := req.(*fleetv1.DownloadPayloadRequest); r.GetAgentId() != "c-1" {
			return statusError(codes.NotFound, "PAYLOAD_NOT_FOUND", "There is no payload.", nil)
		}
		for piece := range slices.Chunk(gzipped(payload), 10) {
			err = errors.Join(err, out.SendMsg(&httpbody.HttpBody{ContentType: "text/plain", Data: piece}))
		}
		return err
	}}
	server, _ := s.listen(t, "")
	file := filepath.Join(t.TempDir(), "result.txt")
	_, stderr, code := runFleet(server, "lifecycle", "download", "c-2", "--output-file", file)
	require.Equal(t, ExitNotFound, code, stderr)
	require.NoFileExists(t, file)

	out, _ := mustRun(t, server, "lifecycle", "download", "c-1")
	require.Equal(t, payload, out)
	mustRun(t, server, "lifecycle", "download", "c-1", "--output-file", file)
	requireOnlyFile(t, file, payload)

	for _, breaks := range []int{1, 3} { // after a broken connection the call is repeated, and what was already written is skipped
		conn := &breakingConn{messages: 2, breaks: breaks}
		c := newCommand(server)
		c.dial = conn.dial
		require.Equal(t, ExitOK, c.run("lifecycle", "download", "c-1"), c.stderr.String())
		require.Equal(t, payload, c.stdout.String())
		require.Equal(t, breaks+1, conn.streams)
	}
}

// gzipped returns the text as gzip.
func gzipped(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.Bytes()
}

// TestBrokenDownloads checks that a broken download leaves the existing file as it was, and no other file.
func TestBrokenDownloads(t *testing.T) {
	t.Parallel()
	full := gzipped(strings.Repeat("0123456789", 10000))
	file := filepath.Join(t.TempDir(), "result.txt")
	require.NoError(t, os.WriteFile(file, []byte("before"), 0o600))
	for name, data := range map[string][]byte{"short": full[:len(full)-9], "garbled": append(full[:20:20], full[30:]...)} {
		sent := false
		r, err := decompress(&downloadReader{sum: sha256.New(), next: func() (proto.Message, error) {
			if sent {
				return nil, os.ErrClosed
			}
			sent = true
			return &httpbody.HttpBody{Data: data}, nil
		}})
		require.NoError(t, err, name)
		_, err = writeFile(file, r)
		require.Error(t, err, name)
		kept, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, "before", string(kept))
		require.NoFileExists(t, file+".part")
	}
	r, err := decompress(strings.NewReader("not compressed"))
	require.NoError(t, err)
	n, err := writeFile(os.DevNull, r)
	require.NoError(t, err)
	require.EqualValues(t, 14, n)
}
