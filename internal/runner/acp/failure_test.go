package acp

import (
	"encoding/json"
	"testing"

	"github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestCodeOfRequestError checks the codes of errors with which programs answer a prompt.
func TestCodeOfRequestError(t *testing.T) {
	for answer, code := range map[string]fleet.ReasonCode{
		`{"code":429,"message":"Rate limit exceeded. Try again later."}`:                                              fleet.CodeRateLimited,
		`{"code":-32000,"message":"provider authentication required","data":{"providerId":"stub"}}`:                   fleet.CodeAuth,
		`{"code":-32603,"message":"API Error: 500 broken","data":{"errorKind":"server_error"}}`:                       fleet.CodeOverloaded,
		`{"code":-32603,"message":"too long","data":{"service":"session","errorName":"ContextOverflowError"}}`:        fleet.CodeContextFull,
		`{"code":-32603,"message":"wrong","data":{"service":"session","errorName":"APIError"}}`:                       "",
		`{"code":-32603,"message":"429 Too Many Requests","data":{"details":"a text that Fleet must not search in"}}`: "",
	} {
		var r acp.RequestError
		require.NoError(t, json.Unmarshal([]byte(answer), &r))
		require.Equal(t, code, codeOfRequestError(&r), answer)
	}
	require.Equal(t, fleet.CodeContextFull, codeOfTokenLimit("gemini-cli"))
	require.Empty(t, codeOfTokenLimit("OpenCode"))
}
