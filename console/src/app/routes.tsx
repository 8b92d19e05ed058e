import { lazy, type ComponentType } from 'react';
import { Navigate, createBrowserRouter, type RouteObject } from 'react-router';
import { NotFound } from './NotFound';

/** The pages. Each is code of its own, fetched when it is first opened. */

function page<Name extends string>(load: () => Promise<Record<Name, ComponentType>>, name: Name) {
  const Page = lazy<ComponentType>(async () => ({ default: (await load())[name] }));
  return <Page />;
}

const address: RouteObject[] = [
  { index: true, element: page(() => import('@/addresses/AddressOverview'), 'AddressOverview') },
  { path: 'messages', element: page(() => import('@/messages/MessagesPage'), 'MessagesPage') },
  { path: 'deadletters', element: page(() => import('@/messages/DeadLettersPage'), 'DeadLettersPage') },
  { path: 'send', element: page(() => import('@/messages/SendPage'), 'SendPage') },
  { path: 'settings', element: page(() => import('@/addresses/SettingsPage'), 'SettingsPage') },
];

const space: RouteObject[] = [
  { index: true, element: page(() => import('@/spaces/SpaceOverview'), 'SpaceOverview') },
  { path: 'addresses', element: page(() => import('@/addresses/AddressListPage'), 'AddressListPage') },
  {
    path: 'connections',
    element: page(() => import('@/connections/SpaceConnectionsPage'), 'SpaceConnectionsPage'),
  },
  { path: 'users', element: page(() => import('@/users/UserListPage'), 'UserListPage') },
  { path: 'connect', element: page(() => import('@/spaces/ConnectPage'), 'ConnectPage') },
  { path: 'try', element: page(() => import('@/tryit/TryPage'), 'TryPage') },
  { path: 'mqtt-sessions', element: page(() => import('@/mqtt/SessionsPage'), 'SessionsPage') },
  { path: 'retained', element: page(() => import('@/mqtt/RetainedPage'), 'RetainedPage') },
  { path: 'events', element: page(() => import('@/spaces/EventsPage'), 'EventsPage') },
];

const operator: RouteObject[] = [
  { path: 'platform', element: page(() => import('@/operator/PlatformPage'), 'PlatformPage') },
  { path: 'plans', element: page(() => import('@/operator/PlansPage'), 'PlansPage') },
  { path: 'plans/:kind/:namespace/:name', element: page(() => import('@/operator/EditPage'), 'EditPage') },
  { path: 'infra', element: page(() => import('@/operator/InfraPage'), 'InfraPage') },
  { path: 'infra/:kind/:namespace/:name', element: page(() => import('@/operator/EditPage'), 'EditPage') },
  {
    path: 'authentication',
    element: page(() => import('@/operator/AuthenticationPage'), 'AuthenticationPage'),
  },
  {
    path: 'authentication/:kind/:namespace/:name',
    element: page(() => import('@/operator/EditPage'), 'EditPage'),
  },
  { path: 'connections', element: page(() => import('@/operator/ConnectionsPage'), 'ConnectionsPage') },
  { path: 'logs', element: page(() => import('@/operator/LogsPage'), 'LogsPage') },
  { path: 'audit', element: page(() => import('@/operator/AuditPage'), 'AuditPage') },
  { path: 'backups', element: page(() => import('@/operator/BackupsPage'), 'BackupsPage') },
];

export const routes: RouteObject[] = [
  { path: '/login', element: page(() => import('./Login'), 'LoginPage') },
  {
    path: '/',
    element: page(() => import('./Protected'), 'Protected'),
    children: [
      { index: true, element: <Navigate to="/overview" replace /> },
      { path: 'overview', element: page(() => import('@/overview/OverviewPage'), 'OverviewPage') },
      { path: 'spaces', element: page(() => import('@/spaces/SpaceListPage'), 'SpaceListPage') },
      { path: 'spaces/new', element: page(() => import('@/spaces/CreateSpacePage'), 'CreateSpacePage') },
      {
        path: 'spaces/:namespace/:space/addresses/new',
        element: page(() => import('@/addresses/CreateAddressPage'), 'CreateAddressPage'),
      },
      {
        path: 'spaces/:namespace/:space/addresses/:address',
        element: page(() => import('@/addresses/AddressLayout'), 'AddressLayout'),
        children: address,
      },
      {
        path: 'spaces/:namespace/:space/connections/:connection',
        element: page(() => import('@/connections/ConnectionPage'), 'ConnectionPage'),
      },
      {
        path: 'spaces/:namespace/:space/users/new',
        element: page(() => import('@/users/UserFormPage'), 'UserFormPage'),
      },
      {
        path: 'spaces/:namespace/:space/users/:user',
        element: page(() => import('@/users/UserPage'), 'UserPage'),
      },
      {
        path: 'spaces/:namespace/:space/users/:user/edit',
        element: page(() => import('@/users/UserFormPage'), 'UserFormPage'),
      },
      {
        path: 'spaces/:namespace/:space',
        element: page(() => import('@/spaces/SpaceLayout'), 'SpaceLayout'),
        children: space,
      },
      { path: 'pipelines', element: page(() => import('@/pipelines/PipelineListPage'), 'PipelineListPage') },
      {
        path: 'pipelines/:namespace/:pipeline',
        element: page(() => import('@/pipelines/PipelinePage'), 'PipelinePage'),
      },
      { path: 'operator', children: operator },
      { path: '*', element: <NotFound /> },
    ],
  },
];

export const router = createBrowserRouter(routes, { basename: '/console' });
