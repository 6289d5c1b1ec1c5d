package oidctest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	i := New(t, User{Subject: "1", Name: "alice", Email: "alice@example.com", EmailVerified: true, Groups: []string{"dev"}})
	token := i.Tokens(t, "alice")
	t.Log(token.AccessToken, token.RefreshToken, token.Extra("id_token"))
	require.NotEmpty(t, token.RefreshToken)
}
