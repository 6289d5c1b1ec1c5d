package rpc

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/admission"
)

// payloadChunk is the maximum number of content bytes in one message.
const payloadChunk = 256 << 10

const textContentType = "text/plain; charset=utf-8"

// DownloadTaskPayload sends the payload of a task from the request's offset on.
func (f *Fleet) DownloadTaskPayload(r *fleetv1.DownloadTaskPayloadRequest, out grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	d, err := f.svc.DownloadPayload(out.Context(), r.GetTaskId(), r.GetOffset())
	if err != nil {
		return err
	}
	contentType, extension := textContentType, ".txt"
	if !d.IsText {
		contentType, extension = "application/octet-stream", ".bin"
	}
	return sendContent(out, contentType, &fleetv1.PayloadInfo{
		Offset: r.GetOffset(), Size: d.Size, Sha256: hex.EncodeToString(d.SHA256[:]), FileName: "task-" + d.Task.ID + extension,
	}, d.PackedSize, d)
}

// DownloadAgentBundle sends a git bundle of the work that the agent has not pushed.
func (f *Fleet) DownloadAgentBundle(r *fleetv1.DownloadAgentBundleRequest, out grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	a, content, err := f.svc.DownloadBundle(out.Context(), r.GetAgentName())
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	return sendContent(out, "application/x-git-bundle", &fleetv1.PayloadInfo{
		Size: int64(len(content)), Sha256: hex.EncodeToString(sum[:]), FileName: a.Name + ".bundle",
	}, len(content), bytes.NewReader(content))
}

// DownloadPayload sends the payload of an agent that agent_start created, compressed with gzip.
func (l *Lifecycle) DownloadPayload(r *fleetv1.DownloadPayloadRequest, out grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	packed, err := l.svc.Payload(out.Context(), r.GetAgentId())
	if err != nil {
		return err
	}
	sum := sha256.Sum256(packed)
	return sendContent(out, textContentType, &fleetv1.PayloadInfo{
		Size: int64(len(packed)), Sha256: hex.EncodeToString(sum[:]), ContentEncoding: "gzip",
	}, len(packed), bytes.NewReader(packed))
}

// sendContent sends the content in messages of at most payloadChunk bytes. The first message also has the info, and is sent
// even if the content is empty. memoryBytes is how much memory the content takes during the call, apart from the messages.
func sendContent(out grpc.ServerStreamingServer[httpbody.HttpBody], contentType string, info *fleetv1.PayloadInfo, memoryBytes int, content io.Reader) error {
	admission.SetDownloadSize(out.Context(), memoryBytes+payloadChunk)
	packedInfo, err := anypb.New(info)
	if err != nil {
		return err
	}
	extensions := []*anypb.Any{packedInfo}
	for {
		chunk := make([]byte, payloadChunk) // a new slice for each message, because the receiver may keep it
		n, err := io.ReadFull(content, chunk)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		if n > 0 || extensions != nil {
			if err := out.Send(&httpbody.HttpBody{ContentType: contentType, Data: chunk[:n], Extensions: extensions}); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
		extensions = nil
	}
}
