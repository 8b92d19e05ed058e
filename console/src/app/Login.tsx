import {
  ActionGroup,
  Alert,
  Button,
  Content,
  Divider,
  Form,
  Spinner,
  Stack,
  StackItem,
  Title,
} from '@patternfly/react-core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { useLocation, useNavigate } from 'react-router';
import { request } from '@/api/http';
import { messageOf } from '@/api/errors';
import { TextField } from '@/ui/fields';
import { Brand } from './Brand';
import { useSessionControl, type LoginMethods } from './session';

/** Where a login leads: a page of the console, never another address. */
export function destination(search: string): string {
  const then = new URLSearchParams(search).get('then') ?? '/';
  return then.startsWith('/') && !then.startsWith('//') && !then.startsWith('/login') ? then : '/';
}

/** The one-time code of the link that `enmasse console` opens. */
function codeOfLink(): string | null {
  return new URLSearchParams(location.hash.slice(1)).get('code');
}

function CodeLogin({ code, onFailure }: { code: string; onFailure: (message: string) => void }) {
  const { logIn } = useSessionControl();
  const isSent = useRef(false);
  useEffect(() => {
    if (isSent.current) return;
    isSent.current = true;
    logIn({ code }).catch((error: unknown) => {
      onFailure(messageOf(error));
    });
  }, [code, logIn, onFailure]);
  return (
    <Stack hasGutter className="em-center">
      <Spinner aria-label="Logging in" />
      <Content component="p">Logging in with the one-time code …</Content>
    </Stack>
  );
}

function TokenLogin() {
  const { logIn } = useSessionControl();
  const [token, setToken] = useState('');
  const login = useMutation({ mutationFn: () => logIn({ token: token.trim() }) });
  return (
    <Form
      onSubmit={(event) => {
        event.preventDefault();
        login.mutate();
      }}
    >
      {login.error ? <Alert isInline variant="danger" title={messageOf(login.error)} /> : null}
      <TextField
        label="API token"
        type="password"
        value={token}
        onChange={setToken}
        isRequired
        autoFocus
        hint={
          <>
            The owner's token is the file <code>token</code> of the data folder;{' '}
            <code>enmasse token create</code> makes others.
          </>
        }
      />
      <ActionGroup>
        <Button
          type="submit"
          isBlock
          isDisabled={token.trim() === '' || login.isPending}
          isLoading={login.isPending}
        >
          Log in
        </Button>
      </ActionGroup>
    </Form>
  );
}

export function LoginPage() {
  const [code, setCode] = useState(codeOfLink);
  const [failure, setFailure] = useState<string | null>(null);
  const { state } = useSessionControl();
  const { search } = useLocation();
  const navigate = useNavigate();
  // The code leaves the address bar at once. Rendering may happen twice, so it only reads.
  useEffect(() => {
    if (codeOfLink()) history.replaceState(history.state, '', location.pathname + location.search);
  }, []);
  const methods = useQuery({
    queryKey: ['login-methods'],
    queryFn: () => request<LoginMethods>('GET', '/console/login-methods'),
  });
  useEffect(() => {
    document.title = 'Log in · EnMasse';
    if (state.phase === 'in') void navigate(destination(search), { replace: true });
  }, [state, navigate, search]);
  const message = failure ?? new URLSearchParams(search).get('error');
  const oidc = methods.data?.oidc;
  return (
    <main className="em-login">
      <div className="em-login-card">
        <Stack hasGutter>
          <StackItem>
            <Brand />
          </StackItem>
          <StackItem>
            <Title headingLevel="h1">Log in to your account</Title>
          </StackItem>
          {state.phase === 'out' && state.isOver ? (
            <StackItem>
              <Alert isInline variant="info" title="The session is over. Log in again to go on." />
            </StackItem>
          ) : null}
          {message ? (
            <StackItem>
              <Alert isInline variant="danger" title={message} />
            </StackItem>
          ) : null}
          {code && !failure ? (
            <CodeLogin
              code={code}
              onFailure={(text) => {
                setFailure(text);
                setCode(null);
              }}
            />
          ) : (
            <>
              {oidc ? (
                <StackItem>
                  <Button
                    component="a"
                    isBlock
                    href={`${oidc.start}?then=${encodeURIComponent(`/console${destination(search)}`)}`}
                  >
                    Log in with {oidc.name}
                  </Button>
                  <Divider className="em-divider" />
                </StackItem>
              ) : null}
              <StackItem>
                <TokenLogin />
              </StackItem>
              <StackItem>
                <Content component="small">
                  On the machine of the platform, <code>enmasse console</code> opens this page and logs in.
                </Content>
              </StackItem>
            </>
          )}
        </Stack>
      </div>
    </main>
  );
}
