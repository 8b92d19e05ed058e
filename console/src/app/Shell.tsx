import {
  Alert,
  Button,
  Divider,
  Dropdown,
  DropdownGroup,
  DropdownItem,
  DropdownList,
  Masthead,
  MastheadBrand,
  MastheadContent,
  MastheadLogo,
  MastheadMain,
  MastheadToggle,
  MenuToggle,
  Nav,
  NavGroup,
  NavItem,
  Page as PagePart,
  PageSidebar,
  PageSidebarBody,
  PageToggleButton,
  SkipToContent,
  Toolbar,
  ToolbarContent,
  ToolbarItem,
} from '@patternfly/react-core';
import BarsIcon from '@patternfly/react-icons/dist/esm/icons/bars-icon';
import MoonIcon from '@patternfly/react-icons/dist/esm/icons/moon-icon';
import SunIcon from '@patternfly/react-icons/dist/esm/icons/sun-icon';
import UserIcon from '@patternfly/react-icons/dist/esm/icons/user-icon';
import { Suspense, useEffect, useState } from 'react';
import { Link, Outlet, useLocation } from 'react-router';
import { useLostSince } from '@/api/connectivity';
import { duration } from '@/ui/format';
import { Loading } from '@/ui/States';
import { Brand } from './Brand';
import { Boundary } from './Boundary';
import { useSession, useSessionControl } from './session';
import { useTheme } from './theme';

interface Place {
  title: string;
  to: string;
}

const TENANT: readonly Place[] = [
  { title: 'Overview', to: '/overview' },
  { title: 'Address spaces', to: '/spaces' },
  { title: 'Pipelines', to: '/pipelines' },
];

const OPERATOR: readonly Place[] = [
  { title: 'Platform', to: '/operator/platform' },
  { title: 'Plans', to: '/operator/plans' },
  { title: 'Infra configs', to: '/operator/infra' },
  { title: 'Authentication', to: '/operator/authentication' },
  { title: 'Connections', to: '/operator/connections' },
  { title: 'Logs', to: '/operator/logs' },
  { title: 'Audit', to: '/operator/audit' },
  { title: 'Backups', to: '/operator/backups' },
];

function Places({ places }: { places: readonly Place[] }) {
  const { pathname } = useLocation();
  return places.map((place) => (
    <NavItem key={place.to} isActive={pathname === place.to || pathname.startsWith(`${place.to}/`)}>
      <Link to={place.to}>{place.title}</Link>
    </NavItem>
  ));
}

function Navigation() {
  const { may } = useSession();
  return (
    <PageSidebarBody>
      <Nav aria-label="Pages">
        <NavGroup title="Messaging">
          <Places places={TENANT} />
        </NavGroup>
        {may.operate ? (
          <NavGroup title="Operations">
            <Places places={OPERATOR} />
          </NavGroup>
        ) : null}
      </Nav>
    </PageSidebarBody>
  );
}

function UserMenu() {
  const session = useSession();
  const { logOut } = useSessionControl();
  const [isOpen, setIsOpen] = useState(false);
  const roles = session.isOwner ? ['owner'] : Object.keys(session.roles);
  return (
    <Dropdown
      isOpen={isOpen}
      onOpenChange={setIsOpen}
      popperProps={{ position: 'right' }}
      onSelect={() => {
        setIsOpen(false);
      }}
      toggle={(ref) => (
        <MenuToggle
          ref={ref}
          variant="plainText"
          icon={<UserIcon />}
          isExpanded={isOpen}
          aria-label={`Account: ${session.isOwner ? 'Owner' : session.user}`}
          onClick={() => {
            setIsOpen(!isOpen);
          }}
        >
          <bdi className="em-user">{session.isOwner ? 'Owner' : session.user}</bdi>
        </MenuToggle>
      )}
    >
      <DropdownGroup label={`Roles: ${roles.join(', ') || 'none'}`}>
        <DropdownList>
          <DropdownItem key="version" isDisabled>
            EnMasse {session.platform.version}
          </DropdownItem>
        </DropdownList>
      </DropdownGroup>
      <Divider />
      <DropdownList>
        <DropdownItem key="out" onClick={() => void logOut()}>
          Log out
        </DropdownItem>
      </DropdownList>
    </Dropdown>
  );
}

function ThemeToggle() {
  const theme = useTheme();
  const next = theme.resolved === 'dark' ? 'light' : 'dark';
  return (
    <Button
      variant="plain"
      aria-label={`Use the ${next} theme`}
      icon={next === 'dark' ? <MoonIcon /> : <SunIcon />}
      onClick={() => {
        theme.choose(next);
      }}
    />
  );
}

/** Says that the platform is away, and for how long: what is on the page may be out of date. */
function LostBanner() {
  const since = useLostSince();
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (since === null) return;
    const timer = setInterval(() => {
      setNow(Date.now());
    }, 1000);
    return () => {
      clearInterval(timer);
    };
  }, [since]);
  if (since === null) return null;
  const seconds = Math.max(0, (now - since) / 1000);
  return (
    <Alert
      isInline
      isLiveRegion
      variant="warning"
      className="em-lost"
      title={`The platform has not answered for ${duration(seconds)}. Values on this page may be out of date; it goes on by itself.`}
    />
  );
}

export function Shell() {
  const { pathname } = useLocation();
  return (
    <PagePart
      isContentFilled
      isManagedSidebar
      defaultManagedSidebarIsOpen
      skipToContent={<SkipToContent href="#main">Skip to content</SkipToContent>}
      mainContainerId="main"
      masthead={
        <Masthead display={{ default: 'inline' }}>
          <MastheadMain>
            <MastheadToggle>
              <PageToggleButton variant="plain" aria-label="Pages" icon={<BarsIcon />} />
            </MastheadToggle>
            <MastheadBrand>
              <MastheadLogo
                component={(props) => <Link {...props} to="/" aria-label="EnMasse, first page" />}
              >
                <Brand />
              </MastheadLogo>
            </MastheadBrand>
          </MastheadMain>
          <MastheadContent>
            <Toolbar isStatic isFullHeight>
              <ToolbarContent alignItems="center">
                <ToolbarItem align={{ default: 'alignEnd' }}>
                  <ThemeToggle />
                </ToolbarItem>
                <ToolbarItem>
                  <UserMenu />
                </ToolbarItem>
              </ToolbarContent>
            </Toolbar>
          </MastheadContent>
        </Masthead>
      }
      sidebar={
        <PageSidebar>
          <Navigation />
        </PageSidebar>
      }
    >
      <LostBanner />
      <Boundary key={pathname}>
        <Suspense
          fallback={
            <div className="em-waiting">
              <Loading label="Loading the page" />
            </div>
          }
        >
          <Outlet />
        </Suspense>
      </Boundary>
    </PagePart>
  );
}
