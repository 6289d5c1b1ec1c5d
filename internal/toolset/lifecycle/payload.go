package lifecycle

import (
	"context"

	"fleet/internal/fleet"
	"fleet/internal/service"
)

// AppendPayload appends piece to the payload of a running agent, once per request id. It returns the payload's new size in
// bytes, before compression.
func (s *Service) AppendPayload(ctx context.Context, id, piece, requestID string) (int, error) {
	if piece == "" {
		return 0, fleet.InvalidField("chunk", "chunk is empty: there is nothing to add")
	}
	if err := service.CheckRequestID(requestID); err != nil {
		return 0, err
	}
	if err := s.checkContract(ctx, id); err != nil {
		return 0, err
	}
	return s.core.AppendPayload(ctx, id, []byte(piece), s.cfg.MaxPayload, requestID)
}

// Payload returns the agent's payload, compressed with gzip. It returns PAYLOAD_NOT_FOUND if the agent has no payload.
func (s *Service) Payload(ctx context.Context, id string) ([]byte, error) {
	if id == "" {
		return nil, noIDError()
	}
	packed, _, err := s.core.PackedPayload(ctx, id)
	return packed, err
}

// PayloadURL returns the address for downloading the agent's payload. It returns "" if this server has no REST face.
func (s *Service) PayloadURL(id string) string {
	url := s.restURL()
	if url == "" {
		return ""
	}
	return url + "/api/agents/" + id + "/payload"
}
