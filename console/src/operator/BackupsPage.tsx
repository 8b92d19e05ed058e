import {
  Button,
  Card,
  CardBody,
  CardTitle,
  Content,
  Form,
  PageSection,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import DownloadIcon from '@patternfly/react-icons/dist/esm/icons/download-icon';
import { useState } from 'react';
import { withQuery } from '@/api/http';
import { BASE } from '@/api/kinds';
import { useSession } from '@/app/session';
import { Code } from '@/ui/Code';
import { Page } from '@/ui/Page';
import { CheckField } from '@/ui/fields';

/** A backup is made while it is downloaded: the browser writes the stream to a file. */
export function BackupsPage() {
  const { isOwner } = useSession();
  const [secrets, setSecrets] = useState(false);
  const name = `enmasse-${new Date().toISOString().slice(0, 10)}.tar.gz`;
  return (
    <Page title="Backups" subtitle="Everything acknowledged until now: resources, and messages on disk.">
      <PageSection isFilled>
        <Stack hasGutter>
          <StackItem>
            <Card isCompact>
              <CardTitle>Make a backup</CardTitle>
              <CardBody>
                <Form isWidthLimited>
                  <Content component="p">Clients are not disturbed. Passwords are in no backup.</Content>
                  {isOwner ? (
                    <CheckField
                      label="With Secrets, certificate authorities and tokens"
                      value={secrets}
                      onChange={setSecrets}
                      hint="Keep such a file as you keep a private key."
                    />
                  ) : null}
                  <div>
                    <Button
                      component="a"
                      icon={<DownloadIcon />}
                      href={withQuery(`${BASE}/backup`, { secrets: secrets || undefined })}
                      download={name}
                    >
                      Create and download
                    </Button>
                  </div>
                </Form>
              </CardBody>
            </Card>
          </StackItem>
          <StackItem>
            <Card isCompact>
              <CardTitle>Restore it</CardTitle>
              <CardBody>
                <Content component="p">Into a data folder that no platform uses:</Content>
                <Code text={`enmasse restore ${name} --data ./restored\nenmasse up --data ./restored`} />
              </CardBody>
            </Card>
          </StackItem>
        </Stack>
      </PageSection>
    </Page>
  );
}
